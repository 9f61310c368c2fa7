// Queries PostgreSQL and blocks until the answer is there. So tests read both stores by the same calls, because those of
// an SQLite file block as well.
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import type { Answered, Asked } from './blocking-worker.ts';

const LIMIT_MS = 30_000;

let started: { port: MessagePort; done: Int32Array } | undefined;

/** Without `values`, the text may hold several statements. `$1` is the first value. */
export function query(schema: string, text: string, values?: unknown[]): unknown[] {
  const { port, done } = (started ??= start());
  Atomics.store(done, 0, 0);
  port.postMessage({ schema, text, values } satisfies Asked);
  if (Atomics.wait(done, 0, 0, LIMIT_MS) === 'timed-out') throw new Error(`no answer to: ${text}`);
  const answer = receiveMessageOnPort(port)?.message as Answered;
  if ('error' in answer) throw new Error(`${answer.error}, after: ${text}`);
  return answer.rows.map(withBuffers);
}

function start() {
  const { port1: port, port2 } = new MessageChannel();
  const done = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL('blocking-worker.ts', import.meta.url), {
    workerData: { port: port2, done, url: process.env['TEST_POSTGRES_URL'] },
    transferList: [port2],
  });
  worker.unref();
  port.unref();
  return { port, done };
}

/** A message between threads turns a Buffer into a Uint8Array. */
function withBuffers(row: unknown): unknown {
  const values = Object.entries(row as object).map(([name, value]: [string, unknown]) => [
    name,
    value instanceof Uint8Array ? Buffer.from(value) : value,
  ]);
  return Object.fromEntries(values);
}
