// Reads every page of the ops port over HTTP, from a kit on a prepared store. Then measures acknowledgements of
// deliveries, alone and while a client reads page after page. All times include the client's own work.
import { setTimeout as sleep } from 'node:timers/promises';
import { drive, type Measured } from './drive.ts';
import { OPS_PORT, startKit, type Server } from './servers.ts';

const ROUNDS = 3;
const PER_SECOND = 200;
const SECONDS = 15;
const TRIES = 5;
/** The client of an export disconnects after this time. */
const EXPORT_MS = 15_000;

export interface Pressed {
  /** The folder of the store, events.db. */
  folder: string;
  /** The number of events. Their cursors begin at 1. */
  events: number;
  /** The id of a large group of dead letters. */
  group: number;
  limitMs: number;
}

/** Returns the paths that took longer than the limit. */
export async function pagesOf({ folder, events, group, limitMs }: Pressed): Promise<string[]> {
  const kit = await startKit({ folder, env: { RETENTION_DAYS: '36500', PAYLOAD_RETENTION_DAYS: '36500' } });
  try {
    const paths = pathsOf(events, group);
    // The ops port opens after the port for deliveries.
    while ((await kit.handled()) === 0) await sleep(20);
    const slow: string[] = [];
    process.stdout.write(`\nPages over HTTP: the best of ${TRIES} (median, worst)\n`);
    for (const path of paths) {
      const times: number[] = [];
      let bytes = 0;
      for (let n = 0; n < TRIES; n++) {
        const begun = performance.now();
        bytes = await read(path);
        times.push(performance.now() - begun);
      }
      // The fastest try counts, because other programs on the machine can only slow the server down.
      const best = Math.min(...times);
      if (best > limitMs) slow.push(path);
      process.stdout.write(
        `${path.padEnd(60)} ${ms(best)} (${ms(median(times))}, ${ms(Math.max(...times))})  ${bytes} bytes\n`,
      );
    }
    process.stdout.write('\nThe overview while events are exported: median, worst\n');
    if ((await besideExport()) > limitMs) slow.push('/ beside an export');
    process.stdout.write('\nAnswers to deliveries, without and while one page after another is read\n');
    await accepting(kit, paths);
    return slow;
  } finally {
    await kit.stop();
  }
}

function pathsOf(events: number, group: number): string[] {
  const deep = events >> 1;
  const session = '00000000-0000-4000-8000-000000000003';
  return [
    ...['/', '/?range=7d', '/reconciliation', '/refused', '/nowhere', '/login', '/runbook'],
    ...['/handlers', '/handlers/answer', '/handlers/answer?range=7d', '/handlers/nobody'],
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

/** Returns the number of bytes. Throws if the answer is a server error. */
async function read(path: string, onBytes: (bytes: number) => void = () => {}, signal?: AbortSignal): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${OPS_PORT}${path}`, signal ? { signal } : {});
  if (response.status >= 500) throw new Error(`${path}: ${response.status}`);
  let bytes = 0;
  for await (const chunk of response.body ?? []) onBytes((bytes += (chunk as Uint8Array).length));
  return bytes;
}

/** Reads the overview page during exports of all events, and of filters that match none. Returns the slowest median. */
async function besideExport(): Promise<number> {
  let slowest = 0;
  for (const query of ['', '?type=None', '?state=dead&handler=project', '?q=not-there']) {
    const lines = { bytes: 0, ended: false };
    const enough = AbortSignal.timeout(EXPORT_MS);
    const exporting = read(`/events.ndjson${query}`, (bytes) => (lines.bytes = bytes), enough)
      .catch((error: unknown) => {
        if (!enough.aborted) throw error;
      })
      .finally(() => (lines.ended = true));
    const times: number[] = [];
    while (!lines.ended) {
      const at = performance.now();
      await read('/');
      times.push(performance.now() - at);
    }
    await exporting;
    slowest = Math.max(slowest, median(times));
    const beside = `${ms(median(times))}, at worst ${ms(Math.max(...times))}`;
    process.stdout.write(
      `export${query}: ${lines.bytes} bytes, ${enough.aborted ? 'then left' : 'to the end'}; the overview beside it ${beside}\n`,
    );
  }
  return slowest;
}

/** Measures answers without and with page reads in turn, because the machine's other load changes between rounds. */
async function accepting(kit: Server, paths: string[]): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    const without = await send(kit);
    const looker = { at: true, seen: 0 };
    const looking = (async () => {
      for (; looker.at; looker.seen++) await read(paths[looker.seen % paths.length] ?? '/');
    })();
    const beside = await send(kit);
    looker.at = false;
    await looking;
    process.stdout.write(
      `acknowledged at ${PER_SECOND}/s, round ${round}: p50 ${ms(without.p50)} p99 ${ms(without.p99)}; beside ${looker.seen} pages p50 ${ms(beside.p50)} p99 ${ms(beside.p99)}\n`,
    );
  }
}

/** Measures acknowledgements from the planned time of sending, so that waiting for a free connection counts too. */
function send(kit: Server): Promise<Measured> {
  const steady = { count: PER_SECOND * SECONDS, rate: PER_SECOND, warm: 200, connections: 16 };
  return drive(kit, { ...steady, first: Date.now() * 1_000 });
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
