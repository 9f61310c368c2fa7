// `npm run pressure`: measures queries and ops pages on a store with many events and dead letters, and how much reading
// pages delays acknowledgements. Exits with 1 if a query scans a table that grows, or if a query or a page takes over
// 100 ms.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import Database from 'better-sqlite3';
import { describe, EXIT } from '../../src/base/errors.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { endsWithSignals, whole } from './asked.ts';
import { pagesOf } from './pages.ts';

const USAGE =
  'npm run pressure -- [events, 300000] [dead letters, 100000] [folder of a store to make, or to use again]';
const { events, dead, kept } = asked();
const folder = kept ?? mkdtempSync(join(tmpdir(), 'kit-pressure-'));
endsWithSignals();
if (kept === undefined) process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, 'events.db');
const CAUSES = ['connection refused', 'no such conversation "a b"', 'ServiceError: 503', 'template missing'];
const LIMIT_MS = 100;
/** Each query is tried this often. The fastest try counts, because other programs can only slow the store down. */
const TRIES = 5;
const START = Date.UTC(2026, 0, 1);
const now = START + events * 10 + 60_000;

const statements: string[] = [];
// oxlint-disable-next-line typescript/unbound-method -- `prepare` is called with its own `this`
const { prepare } = Database.prototype;
Database.prototype.prepare = function (this: Database.Database, sql: string) {
  statements.push(sql);
  return prepare.call(this, sql) as never;
};
const fresh = !existsSync(path);
const store = openSqlite(path, { owner: true, synchronous: 'NORMAL' });
if (fresh) await fill(store);
await store.ingest.accept({ readings: Array.from({ length: 1_000 }, () => readDelivery(bodyOf(7, START))), now });
await sampleWeek(Date.now());
const slow: string[] = [];

function asked(): { events: number; dead: number; kept: string | undefined } {
  const [first = '300000', second = '100000', place] = process.argv.slice(2);
  if (first === '--help') {
    console.log(USAGE);
    process.exit(EXIT.done);
  }
  try {
    return { events: whole('events', first, 1), dead: whole('dead letters', second, 0), kept: place };
  } catch (error) {
    console.error(`${describe(error).message}\n\n${USAGE}`);
    return process.exit(EXIT.usage);
  }
}

async function fill(into: Store): Promise<void> {
  const handlers = [...(await into.work.register(['answer', 'project'])).values()];
  const [first = 0] = handlers;
  for (let made = 0, killed = 0; made < events;) {
    const size = Math.min(1_000, events - made);
    const at = START + made * 10;
    const readings = Array.from({ length: size }, (_, n) => readDelivery(bodyOf(made + n + 1, at)));
    await into.ingest.accept({ readings, now: at });
    const { from, events: found } = await into.work.pending(size);
    const tasks = found.flatMap(({ seq, cursor, sessionId }) =>
      handlers.map((handler) => ({ event: seq, handler, lane: `${sessionId}/${seq % 1_000}`, cursor, releaseAt: at })),
    );
    const turn = { now: at, boot: 1, settle: [], fanOut: null, room: 0, handlers };
    await into.work.turn({ ...turn, fanOut: { from, upTo: found.at(-1)?.seq ?? from, tasks } });
    made += size;
    const share = Math.round((dead * made) / events) - killed;
    let left = share;
    for (;;) {
      const { claims } = await into.work.turn({ ...turn, room: 2_000 });
      if (claims.length === 0) break;
      const settle = claims.map((claim) => {
        if (claim.handler !== first || left <= 0) return { claim, state: 'done', error: null } as const;
        left--;
        const error = `Error: ${claim.event.seq % 40 === 0 ? 'timed out' : CAUSES[claim.event.seq % CAUSES.length]} after ${claim.task} ms`;
        return { claim, state: 'dead', error } as const;
      });
      await into.work.turn({ ...turn, settle });
    }
    killed += share - left;
    if (made % 50_000 === 0) {
      process.stderr.write(`${made} of ${events} events\n`);
      await into.keep.checkpoint(true);
    }
  }
}

/** Adds the samples that the kit would have taken in the last week. */
async function sampleWeek(until: number): Promise<void> {
  const [day, week] = [until - 86_400_000, until - 7 * 86_400_000];
  if ((await store.read.samples(week, day, 60_000)).length > 0) return;
  for (let at = week; at < until; at += at < day ? 60_000 : 10_000) await store.read.sample(at);
}

function bodyOf(cursor: number, at: number): Buffer {
  const session = `00000000-0000-4000-8000-00000000000${cursor % 5}`;
  const data = { session_id: session, from: '15550100', body: 'x'.repeat(600), message_id: `m-${cursor}` };
  const type = cursor % 50_000 === 0 ? 'Rare' : 'MessageReceived';
  const held = { [type]: { ...data, is_group: false, timestamp_unix_ms: at, message_type: 'text', push_name: 'Ann' } };
  const moment = { created_at: new Date(at).toISOString(), cursor: String(cursor), session_id: session };
  return Buffer.from(JSON.stringify({ id: `e${cursor}`, type, ...moment, webhook_id: 'w', data: held }));
}

async function ask(name: string, question: () => Promise<unknown>): Promise<void> {
  let [best, length] = [Infinity, 0];
  for (let n = 0; n < TRIES; n++) {
    const begun = performance.now();
    const answer = await question();
    best = Math.min(best, performance.now() - begun);
    length = JSON.stringify(answer)?.length ?? 0;
  }
  if (best > LIMIT_MS) slow.push(name);
  process.stdout.write(`${name.padEnd(44)} ${best.toFixed(1).padStart(7)} ms  ${length} bytes\n`);
}

process.stdout.write(`\nQuestions to the store: the best of ${TRIES}, and how long its answer is\n`);
const limit = 50;
const middle = START + events * 5;
const { groups } = await store.read.groups({ limit });
const [group] = groups;
await ask('status', () => store.read.status(now));
await ask('events', () => store.read.events({ limit }, now));
await ask('events of a rare type', () => store.read.events({ type: 'Rare', limit }, now));
await ask('events of a type that is not there', () => store.read.events({ type: 'None', limit }, now));
await ask('events of a session', () =>
  store.read.events({ session: '00000000-0000-4000-8000-000000000003', limit }, now),
);
await ask('events of an origin that is not there', () => store.read.events({ origin: 'stream', limit }, now));
await ask('events with a held task: none', () => store.read.events({ state: 'held', limit }, now));
await ask('events with a dead task', () => store.read.events({ state: 'dead', limit }, now));
await ask('events of a handler in a state: none', () =>
  store.read.events({ handler: 'project', state: 'dead', limit }, now),
);
await ask('events of an hour', () => store.read.events({ since: middle, until: middle + 3_600_000, limit }, now));
await ask('events by cursor', () => store.read.events({ q: String(events >> 1), limit }, now));
await ask('events by message id: not there', () => store.read.events({ q: 'not-there', limit }, now));
await ask('an event', () => store.read.event(String(events >> 1), now));
await ask('neighbours', () => store.read.neighbours(group?.task ?? 0, now));
await ask('dead letters by cause', () => store.read.groups({ limit }));
await ask('dead letters of a handler by cause', () => store.read.groups({ handler: 'answer', limit }));
await ask('tasks', () => store.read.tasks({ limit }, now));
await ask('tasks that are dead', () => store.read.tasks({ state: 'dead', limit }, now));
await ask('tasks of a group', () => store.read.tasks({ group: group?.id, limit }, now));
await ask('tasks of a handler that is not there', () => store.read.tasks({ handler: 'nobody', limit }, now));
await ask('tasks that are dead of a handler: none', () =>
  store.read.tasks({ state: 'dead', handler: 'project', limit }, now),
);
await ask('tasks that are held: none', () => store.read.tasks({ state: 'held', limit }, now));
await ask('handlers', () => store.read.handlers(now));
await ask('a handler', () => store.read.handler('answer', now));
await ask('what filters offer', () => store.read.offers());
await ask('the oldest event', () => store.read.extent());
await ask('ids of all dead', () => store.admin.matching({ state: 'dead' }, now));
await ask('ids of a group', () => store.admin.matching({ group: group?.id }, now));

store.close();
const raw = new Database(path);
const scans = statements.filter((sql) => {
  if (!/^\s*(select|with)/.test(sql)) return false;
  const plan = raw
    .prepare<unknown[], { detail: string }>(`explain query plan ${sql.replaceAll(/@\w+|\?/g, '1')}`)
    .all();
  return plan.some(({ detail }) => /^SCAN (e|events|t|tasks|seen_by_origin|redeliveries|attempts)$/.test(detail));
});
raw.close();
slow.push(...(await pagesOf({ folder, events, group: group?.id ?? 0, limitMs: LIMIT_MS })));
for (const sql of scans) process.stdout.write(`reads a whole table: ${sql.replaceAll(/\s+/g, ' ')}\n`);
const verdict =
  slow.length > 0 ? `over ${LIMIT_MS} ms: ${slow.join(', ')}` : `no question and no page took over ${LIMIT_MS} ms`;
process.stdout.write(`\n${verdict}\n`);
process.exitCode = slow.length + scans.length > 0 ? 1 : 0;
