// The sender, a process of its own: signed deliveries over kept connections, one at a time on each, at full speed or at
// a rate. All are signed beforehand, so sending is cheap. It prints a line after the warm-up, and then what it saw.
import { createHmac, hash } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface Load {
  port: number;
  secret: string;
  /** Sent first, at full speed. */
  warm: number;
  count: number;
  /** A second. Null: each connection sends as soon as it has its answer. */
  rate: number | null;
  connections: number;
  /** People who write, each in a conversation of its own. */
  lanes: number;
  /** Added to the numbers of the events, so that they are new to the store. */
  first: number;
}

const BYTES = 700;
const load = JSON.parse(process.argv[2] ?? '') as Load;
const now = Date.now();
const requests = Array.from({ length: load.warm + load.count }, (_, n) => requestOf(load.first + n));
await send(0, load.warm, null);
console.log('warm');
await once(process.stdin, 'data');
console.log(await send(load.warm, requests.length, load.rate));
process.exit(0);

/** Resolves to the 99th percentile of the milliseconds from when a delivery was due until its answer. */
async function send(from: number, upTo: number, rate: number | null): Promise<number> {
  const started = performance.now();
  const took: number[] = [];
  const idle: (() => void)[] = [];
  let next = from;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // A delivery is due at its time, also if no connection is free then.
  const dueAt = (n: number): number => (rate === null ? performance.now() : started + ((n - from) * 1_000) / rate);

  function open(): Socket {
    let due = 0;
    const go = (): void => {
      if (next >= upTo) return;
      due = dueAt(next);
      if (due > performance.now()) idle.push(go);
      else socket.write(requests[next++] ?? '');
    };
    const socket = connect(load.port, '127.0.0.1', go);
    socket
      .setNoDelay(true)
      .on('error', reject)
      .on('close', () => reject(new Error('the kit closed a connection')));
    socket.on('data', (chunk) => {
      const status = chunk.toString('latin1', 9, 12);
      if (status !== '204') reject(new Error(`answered with ${status}`));
      if (took.push(performance.now() - due) < upTo - from) go();
      else resolve();
    });
    return socket;
  }

  const sockets = Array.from({ length: load.connections }, open);
  const timer = setInterval(() => idle.splice(0).forEach((go) => go()), 1);
  await promise;
  clearInterval(timer);
  for (const socket of sockets) socket.destroy();
  return took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? NaN;
}

/** Ids are random, which is the most expensive case for their index. */
function requestOf(n: number): Buffer {
  const session_id = `00000000-0000-4000-8000-${String(n % 16).padStart(12, '0')}`;
  const from = `1555${String((n * 7_919) % load.lanes).padStart(7, '0')}`;
  const words = { is_group: false, timestamp_unix_ms: now, message_type: 'text', push_name: 'Ana' };
  const id = hash('sha1', `id ${n}`).slice(0, 36);
  const about = { id, type: 'MessageReceived', created_at: new Date(now).toISOString(), cursor: String(1_000_000 + n) };
  const bodyOf = (text: string): string => {
    const message = { session_id, from, body: text, message_id: `m-${n}`, ...words };
    return JSON.stringify({ ...about, session_id, webhook_id: 'w', data: { MessageReceived: message } });
  };
  const body = bodyOf('x'.repeat(BYTES - bodyOf('').length));
  const seconds = Math.floor(now / 1_000);
  const signature = createHmac('sha256', load.secret).update(`${seconds}.${body}`).digest('hex');
  const head = `POST /webhooks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  return Buffer.from(`${head}\r\nX-Svc-Timestamp: ${seconds}\r\nX-Svc-Signature: v1=${signature}\r\n\r\n${body}`);
}
