// The pages and answers of the ops port over HTTP, served by the kit on a store that is there, and what acknowledging
// costs without and with somebody who looks at them without a pause. Times are a client's, so above those of the server.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const PORTS = { PORT: '5501', OPS_PORT: '5502' };
const TOKEN = 'looks-and-changes';
const ROUNDS = 3;
const PER_SECOND = 200;
const SECONDS = 15;
const TRIES = 5;
const handler = `export default { on: '*', handle() {} };\n`;
const secret = 'whsec_of_the_pressed_kit';

export interface Pressed {
  /** How many events there are, of cursors from 1 on. */
  events: number;
  /** A large group of dead letters. */
  group: number;
  limitMs: number;
}

/** The paths that took longer than the limit. */
export async function pagesOf(store: string, { events, group, limitMs }: Pressed): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-pages-'));
  for (const name of ['answer', 'project']) writeFileSync(join(folder, `${name}.js`), handler);
  const settings = { RETENTION_DAYS: '36500', PAYLOAD_RETENTION_DAYS: '36500', LOG_LEVEL: 'error', OPS_TOKEN: TOKEN };
  const kit = spawn(process.execPath, ['src/main.ts'], {
    env: {
      PATH: process.env['PATH'],
      WEBHOOK_SECRET: secret,
      DATABASE_URL: `sqlite:${store}`,
      HANDLERS_DIR: folder,
      ...PORTS,
      ...settings,
    },
    stdio: 'inherit',
  });
  try {
    await reachable('/livez');
    const paths = pathsOf(events, group);
    const slow: string[] = [];
    for (const path of paths) {
      const times: number[] = [];
      let bytes = 0;
      for (let n = 0; n < TRIES; n++) {
        const begun = performance.now();
        bytes = await read(path);
        times.push(performance.now() - begun);
      }
      const [best, worst] = [Math.min(...times), Math.max(...times)];
      if (median(times) > limitMs) slow.push(path);
      process.stdout.write(`${path.padEnd(60)} ${ms(median(times))} (${ms(best)} to ${ms(worst)})  ${bytes} bytes\n`);
    }
    if ((await besideExport()) > limitMs) slow.push('/ beside an export');
    await accepting(paths);
    return slow;
  } finally {
    kit.kill();
    await once(kit, 'exit');
    rmSync(folder, { recursive: true });
  }
}

function pathsOf(events: number, group: number): string[] {
  const deep = events >> 1;
  const session = '00000000-0000-4000-8000-000000000003';
  return [
    ...['/', '/?range=7d', '/reconciliation', '/refused', '/nowhere', '/login'],
    ...[
      '/events',
      `/events?before=${deep}`,
      `/events?session=${session}`,
      '/events?type=None',
      '/events?origin=stream',
    ],
    ...['/events?state=held', '/events?state=dead', '/events?state=dead&handler=answer'],
    ...[`/events?type=None&before=${deep}`, `/events?state=held&before=${deep}`],
    ...['/events?state=dead&handler=project', '/events?state=skipped', '/events?handler=nobody'],
    ...[`/events?q=${deep}`, '/events?q=not-there', `/events?q=not-there&before=${deep}`],
    ...['/events?since=2026-01-01T01:00:00Z&until=2026-01-01T02:00:00Z&type=Rare', `/events/c%3A${deep}`],
    ...['/events/c%3A7', '/events/nowhere', '/dead-letters', '/dead-letters?handler=answer'],
    ...[`/dead-letters?group=${group}`, `/dead-letters?group=${group}&before=${deep * 4096}`],
    ...['/api/status', '/metrics', '/readyz', '/api/events?limit=500', '/api/events?state=dead&limit=500'],
    ...['/api/events/7', '/api/tasks?limit=500', '/api/tasks?state=dead&limit=500', '/api/tasks?state=held'],
    ...['/api/tasks?state=done&handler=nobody', '/api/tasks?handler=project&state=dead', `/api/tasks?group=${group}`],
    ...[
      '/api/dead-letters',
      '/api/jobs',
      '/api/quarantine',
      '/events.ndjson?since=2026-01-01&until=2026-01-01T00:00:10Z',
    ],
  ];
}

/** How many bytes came; throws what is no answer of the page. */
async function read(path: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${PORTS.OPS_PORT}${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  if (response.status >= 500) throw new Error(`${path}: ${response.status}`);
  let bytes = 0;
  for await (const chunk of response.body ?? []) bytes += (chunk as Uint8Array).length;
  return bytes;
}

/** The slowest overview while everything is exported, and then while an export finds nothing in all there is. */
async function besideExport(): Promise<number> {
  let slowest = 0;
  for (const query of ['', '?type=None', '?state=dead&handler=project', '?q=not-there']) {
    const begun = performance.now();
    const lines = { bytes: -1 };
    const exporting = read(`/events.ndjson${query}`).then((all) => (lines.bytes = all));
    const times: number[] = [];
    while (lines.bytes < 0) {
      const at = performance.now();
      await read('/');
      times.push(performance.now() - at);
    }
    await exporting;
    slowest = Math.max(slowest, median(times));
    const took = ((performance.now() - begun) / 1_000).toFixed(1);
    process.stdout.write(
      `export${query}: ${lines.bytes} bytes in ${took} s; the overview beside it ${ms(median(times))}, at worst ${ms(Math.max(...times))}\n`,
    );
  }
  return slowest;
}

/** Side by side, in rounds, because machines are rarely quiet. */
async function accepting(paths: string[]): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    const without = await send();
    const looker = { at: true, seen: 0 };
    const looking = (async () => {
      for (; looker.at; looker.seen++) await read(paths[looker.seen % paths.length] ?? '/');
    })();
    const beside = await send();
    looker.at = false;
    await looking;
    process.stdout.write(
      `acknowledged at ${PER_SECOND}/s, round ${round}: p50 ${ms(without.p50)} p99 ${ms(without.p99)}; beside ${looker.seen} pages p50 ${ms(beside.p50)} p99 ${ms(beside.p99)}\n`,
    );
  }
}

/** From when a delivery was due to its answer, milliseconds. */
async function send(): Promise<{ p50: number; p99: number }> {
  const count = PER_SECOND * SECONDS;
  const args = [PORTS.PORT, count, 16, 1_000, PER_SECOND, Date.now() * 1_000].map(String);
  const sender: ChildProcess = spawn(process.execPath, ['test/bench/load.ts', ...args], {
    env: { PATH: process.env['PATH'], WEBHOOK_SECRET: secret },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (!sender.stdout || !sender.stdin) throw new Error('the sender has no pipes');
  await once(sender.stdout, 'data');
  sender.stdin.write('go');
  const [line] = (await once(sender.stdout, 'data')) as [Buffer];
  const { statuses, ...times } = JSON.parse(line.toString()) as { p50: number; p99: number; statuses: object };
  if (JSON.stringify(statuses) !== `{"204":${count}}`) throw new Error(`refused: ${JSON.stringify(statuses)}`);
  return times;
}

async function reachable(path: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await read(path);
      return;
    } catch (error) {
      if (tries > 400) throw error;
      await sleep(50);
    }
  }
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
