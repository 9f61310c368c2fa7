// How many events a second are accepted, committed and handled, as a ratio to what the same Koa serves when it only
// reads, verifies and parses them. Rounds alternate, because machines are rarely quiet.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const HANDLER = `export default { on: '*', handle() {} };\n`;
const secret = 'whsec_of_the_benchmark';
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    events: { type: 'string', default: '60000' },
    connections: { type: 'string', default: '64' },
    lanes: { type: 'string', default: '10000' },
    json: { type: 'boolean', default: false },
  },
});
const events = Number(values.events);
const env = { PATH: process.env['PATH'], WEBHOOK_SECRET: secret, LOG_LEVEL: 'error' };
const folder = mkdtempSync(join(tmpdir(), 'kit-bench-'));
const rates: { ceiling: number[]; kit: number[] } = { ceiling: [], kit: [] };

for (let round = 1; round <= Number(values.rounds); round++) {
  rates.ceiling.push(await ceiling());
  rates.kit.push(await kit(join(folder, String(round))));
  if (!values.json) say(`round ${round}`, rates.ceiling.at(-1) ?? 0, rates.kit.at(-1) ?? 0);
}
rmSync(folder, { recursive: true });
const [top, ours] = [median(rates.ceiling), median(rates.kit)];
if (values.json) console.log(JSON.stringify({ ceiling: top, kit: ours, ratio: ours / top, rates }));
else say('median', top, ours);

async function ceiling(): Promise<number> {
  const server = start('test/bench/ceiling.ts', { PORT: '4101' });
  await reachable('http://127.0.0.1:4101/');
  const ms = await load(4101);
  server.kill();
  await once(server, 'exit');
  return events / (ms / 1000);
}

/** Until the last one is handled. */
async function kit(place: string): Promise<number> {
  mkdirSync(join(place, 'handlers'), { recursive: true });
  writeFileSync(join(place, 'handlers', 'nothing.js'), HANDLER);
  const server = start('src/main.ts', {
    PORT: '4102',
    OPS_PORT: '4103',
    HANDLERS_DIR: join(place, 'handlers'),
    DATABASE_URL: `sqlite:${place}/events.db`,
  });
  const url = 'http://127.0.0.1:4103/api/status';
  await reachable(url);
  const started = performance.now();
  const prepared = await load(4102, () => performance.now() - started);
  for (;;) {
    const { tasks } = (await (await fetch(url)).json()) as { tasks: { done: number } };
    if (tasks.done >= events) break;
    await sleep(20);
  }
  const seconds = (performance.now() - started - prepared) / 1000;
  server.kill();
  await once(server, 'exit');
  return events / seconds;
}

/** Milliseconds that sending took; with `mark`, what that said when sending began. */
async function load(port: number, mark?: () => number): Promise<number> {
  const { connections, lanes } = values;
  const sender = spawn(process.execPath, ['test/bench/load.ts', String(port), String(events), connections, lanes], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(sender.stdout, 'data');
  const marked = mark?.();
  sender.stdin.write('go');
  const [line] = (await once(sender.stdout, 'data')) as [Buffer];
  const { ms, statuses } = JSON.parse(line.toString()) as { ms: number; statuses: Record<string, number> };
  if (statuses['204'] !== events) throw new Error(`not all were answered with 204: ${JSON.stringify(statuses)}`);
  return marked ?? ms;
}

function start(file: string, more: Record<string, string>): ChildProcess {
  return spawn(process.execPath, [file], { env: { ...env, ...more }, stdio: 'inherit' });
}

async function reachable(url: string): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (
      await fetch(url).then(
        () => true,
        () => false,
      )
    )
      return;
    await sleep(50);
  }
  throw new Error(`${url} does not answer`);
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

function say(name: string, without: number, stored: number): void {
  const [a, b] = [without, stored].map((rate) => String(Math.round(rate)).padStart(6));
  console.log(
    `${name.padEnd(8)}  Koa, nothing stored ${a}/s  accepted and handled ${b}/s  ratio ${(stored / without).toFixed(2)}`,
  );
}
