// One measurement: an edition with the bench's handler, a sender, and what both have seen.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { SECRET, startKit, textOf, type Kit } from '../harness.ts';
import type { Load } from './load.ts';

export type Edition = 'first' | 'second';

/** The kernel counts processor time in hundredths of a second. */
const TICK_US = 10_000;
/** Lags that are told apart, in milliseconds. */
const LAGS = 2_000;
const POLL_MS = 10;

/**
 * The same for both editions: it counts what it has ended, and after how many milliseconds from its release each task
 * began, in memory that it writes to a file a hundred times a second.
 */
const handlerOf = (slowMs: number): string => `import { existsSync, openSync, readSync, writeSync } from 'node:fs';
const seen = new Int32Array(${LAGS + 1}), path = process.env.FOLDER + '/seen';
let file, written = 0;
function begin() {
  file = openSync(path, existsSync(path) ? 'r+' : 'w+');
  readSync(file, seen, 0, seen.byteLength, 0);
  setInterval(() => written !== seen[0] && writeSync(file, seen, 0, seen.byteLength, 0) && (written = seen[0]), 10).unref();
}
export default { on: '*', ${slowMs > 0 ? 'async ' : ''}handle({ receivedAt }) {
  file ?? begin();
  seen[1 + Math.max(0, Math.min(${LAGS - 1}, Date.now() - Date.parse(receivedAt) - 250))]++;
  ${slowMs > 0 ? `await new Promise((done) => setTimeout(done, ${slowMs}));` : ''}
  seen[0]++;
} };
`;

export function startBenched(edition: Edition, folder?: string, slowMs = 0, env = {}): Promise<Kit> {
  return startKit({ edition, env, ...(folder && { folder }), handlers: { 'noting.js': handlerOf(slowMs) } });
}

/** Accepted and handled events a second; processor time of the kit an event, µs; 99th percentiles, ms. */
export type Measured = Record<'rate' | 'cpuUs' | 'answerP99' | 'lagP99', number>;

/** What differs from 64 connections, 10,000 lanes and full speed. `meanwhile` is called each second. */
export type Wanted = Partial<Load> & { count: number; meanwhile?: (kit: Kit) => unknown };

export async function drive(kit: Kit, { meanwhile, ...wanted }: Wanted): Promise<Measured> {
  const port = Number(new URL(kit.url).port);
  const usual = { warm: 4_000, rate: null, connections: 64, lanes: 10_000, first: 0 };
  const load: Load = { ...usual, ...wanted, port, secret: SECRET };
  const sender = spawn(process.execPath, [join(import.meta.dirname, 'load.ts'), JSON.stringify(load)]);
  const lines = createInterface({ input: sender.stdout })[Symbol.asyncIterator]();
  const [main] = kit.pids();
  let fault = '';
  sender.stderr.on('data', (part: Buffer) => (fault += part.toString()));
  const handled = async (count: number): Promise<void> => {
    for (; seenBy(kit)[0] < count; await sleep(POLL_MS)) {
      if (!sender.exitCode && existsSync(`/proc/${main}`)) continue;
      sender.kill();
      throw new Error(`the sender or the kit has ended: ${fault}\n${kit.output()}`);
    }
  };
  const [before] = seenBy(kit);
  await lines.next();
  await handled(before + load.warm);
  const [, ...lagsBefore] = seenBy(kit);
  const cpu = cpuUsOf(kit);
  const timer = meanwhile && setInterval(() => void meanwhile(kit), 1_000);
  const started = performance.now();
  sender.stdin.write('go\n');
  const line = await lines.next();
  await handled(before + load.warm + load.count).finally(() => clearInterval(timer));
  const rate = (load.count * 1_000) / (performance.now() - started);
  const cpuUs = (cpuUsOf(kit) - cpu) / load.count;
  const [, ...lags] = seenBy(kit);
  const lagP99 = p99Of(lags.map((count, ms) => count - (lagsBefore[ms] ?? 0)));
  return { rate, cpuUs, answerP99: Number(line.value), lagP99 };
}

/** How many events were handled, and then by milliseconds how many tasks began so late. */
export function seenBy({ folder }: Kit): [number, ...number[]] {
  const file = join(folder, 'seen');
  const bytes = existsSync(file) ? new Uint8Array(readFileSync(file)) : new Uint8Array(0);
  const [handled = 0, ...lags] = new Int32Array(bytes.buffer);
  return [handled, ...lags];
}

function p99Of(counts: number[]): number {
  const rank = counts.reduce((sum, count) => sum + count, 0) * 0.99;
  let sum = 0;
  return counts.findIndex((count) => (sum += count) >= rank);
}

const sumOf = (kit: Kit, of: (pid: number) => number): number => kit.pids().reduce((sum, pid) => sum + of(pid), 0);

/** Fields 14 and 15 of proc_pid_stat(5). Counted here from the one after the command's name. */
const cpuUsOf = (kit: Kit): number =>
  sumOf(kit, (pid) => {
    const fields = textOf(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK_US;
  });

/** Proportional set size: shared memory is divided among its processes. */
export const memoryMbOf = (kit: Kit): number =>
  sumOf(kit, (pid) => Number(/^Pss:\s+(\d+)/m.exec(textOf(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0)) / 1_024;
