// The headline and the alarms, as pure functions of the facts.
import { expect, test } from 'vitest';
import { alarmsOf } from '../../src/operations/alarms.ts';
import { headlineOf } from '../../src/operations/judge.ts';
import type { Facts, HandlerFacts } from '../../src/operations/store/shapes.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { UP } from './fixture.ts';

const AT = Date.UTC(2026, 0, 31, 12);
const LATE = AT - 6 * 60_000;
const IDLE = { state: 'idle', lastAt: AT, reason: null, recovered: 0 };
const RERUN = { handler: 'crm', only: 'all' as const, tasks: 64 };
const GAP = { after: '5' as Cursor, upTo: null };
const ROOM = { folder: '/data', logBytes: 0, freeBytes: 2 ** 40 };

function crm(change: Partial<HandlerFacts> = {}): { handlers: HandlerFacts[] } {
  const counts = { waiting: 0, done: 0, skipped: 0, dead: 0, failed: 0 };
  const file = { id: 1, name: 'crm', file: '/crm.ts', state: 'loaded' as const, fault: null, position: 9, behind: 0 };
  const well = { paused: false, failing: null, recent: { ended: 0, dead: 0 }, suspects: 0 };
  const times = { dueSince: null, heldSince: null };
  return { handlers: [{ ...file, ...counts, ...well, ...times, ...change }] };
}

function factsWith(change: Partial<Facts> = {}): Facts {
  const kit = { at: AT, pid: 1, version: '2', processes: UP };
  const newest = { newestCursor: '9' as Cursor, newestAt: AT, watermark: null, floor: null };
  const none = { alarms: [], conflictAt: null, reruns: [], running: 0, gaps: [], instances: 1 };
  return { at: AT, ...newest, ...none, ...crm(), ...change, state: { kit, reconcile: IDLE, ...change.state } };
}

function headline(facts: Facts): string {
  const { level, text } = headlineOf(facts, alarmsOf(facts, ROOM));
  return `${level}: ${text}`;
}

const reconcile = (change: object): Partial<Facts> => ({ state: { reconcile: { ...IDLE, ...change } } });
const refused = (failures: number, cause = 'bad_signature'): Partial<Facts> => ({
  state: { failures_in_a_row: failures, last_refused: { cause, at: AT } },
});
const processes = (change: object): Partial<Facts> => ({ state: { kit: { at: AT, processes: { ...UP, ...change } } } });

test.each<[string, Partial<Facts>, string]>([
  [
    'all is well, with a dead letter too',
    crm({ dead: 3, waiting: 2 }),
    'ok: Deliveries are taken and handled: 2 tasks waiting or running, 3 dead letters',
  ],
  [
    'history is being read',
    reconcile({ state: 'running', fetched: 20_000 }),
    'busy: Catching up: 20,000 events fetched',
  ],
  ['known history is read again', reconcile({ state: 'running', fetched: 0 }), 'ok: Deliveries are taken and handled'],
  [
    'history was not read since the start',
    { state: { since: AT + 1 } },
    'busy: History has not been read since the start or reload',
  ],
  [
    'the service fails shortly',
    reconcile({ state: 'backing-off', reason: '503' }),
    'busy: History cannot be read for now: 503',
  ],
  ['a delivery was refused', refused(1), 'warning: Deliveries are being refused, 1 in a row: no secret of'],
  [
    'none was refused since the secret was corrected',
    { state: { ...refused(3).state, since: AT + 1 } },
    'warning: Before the start or reload, 3 deliveries in a row were refused: no secret of',
  ],
  [
    'replay brought an event half a minute after the last webhook',
    { state: { last_accepted_at: AT - 30_000, reconcile: { ...IDLE, recoveredAt: AT } } },
    'busy: The newest events came by replay, and no webhook since',
  ],
  [
    'replay brought what happened while the kit was down',
    { state: { since: AT, last_accepted_at: AT - 900_000, reconcile: { ...IDLE, recoveredAt: AT - 1_000 } } },
    'busy: The newest events came by replay, and no webhook since',
  ],
  [
    'deliveries are refused, so that events come only by replay',
    { state: { ...refused(4).state, reconcile: { ...IDLE, recoveredAt: AT } } },
    'warning: Deliveries are being refused, 4 in a row',
  ],
  [
    'a backup was restored',
    { state: { restored_at: AT - 60_000 } },
    'busy: A backup was restored: repeat the erasures',
  ],
  ['the webhook is silent', reconcile({ recoveredAt: AT }), 'critical: Events come only by replay'],
  [
    'most became dead letters',
    crm({ dead: 9, recent: { ended: 40, dead: 5 } }),
    'warning: crm gives tasks up: it has 9 dead letters: npx kit tasks --handler crm --causes',
  ],
  ['some fail', crm({ failing: { lanes: 2, since: LATE } }), 'warning: crm has failed for 6 min, in 2 lanes'],
  ['run was just started', { state: { ...processes({ run: 'down' }).state, since: AT } }, 'busy: The kit has just'],
  ['a lane is stuck', crm({ dueSince: LATE }), 'warning: crm has had work due for 6 min'],
  ['a strict task is held', crm({ heldSince: LATE }), 'warning: crm has waited 6 min for replay'],
  ['a handler is paused', crm({ paused: true, waiting: 1 }), 'busy: crm is paused, with 1 waiting task: npx kit'],
  ['handlers are far behind', crm({ behind: 5_000 }), 'busy: A handler still has 5,000 events to take up'],
  ['a rerun goes on', { reruns: [RERUN] }, 'busy: crm gets its events again: 64 tasks so far'],
  [
    'a process died and its task runs apart',
    crm({ suspects: 1, waiting: 1 }),
    'warning: A process crashed or looped while it ran 1 task of crm. Each runs again alone',
  ],
  ['run is not up', processes({ run: 'down' }), 'busy: No handler works'],
  ['keep is not up', processes({ keep: 'down' }), 'busy: No history is read'],
  ['main says nothing for 11 s', { at: AT + 11_000 }, 'critical: The kit is not running: npm start'],
  ['two alarms stand', { gaps: [GAP], ...crm({ state: 'missing' }) }, 'critical: 1 gap: the service no longer has'],
])('the headline is true when %s', (_, change, expected) => {
  const words = headline(factsWith(change));
  expect(words.slice(0, expected.length)).toBe(expected);
});

test('a disk that is only low hides neither that the kit is down nor a critical alarm', () => {
  const low = { ...ROOM, freeBytes: 200 * 2 ** 20 };
  const text = (facts: Facts): string => headlineOf(facts, alarmsOf(facts, low)).text;
  expect(text({ ...factsWith(), at: AT + 11_000 })).toMatch('The kit is not running');
  expect(text(factsWith({ gaps: [GAP] }))).toMatch('1 gap');
  expect(text(factsWith())).toMatch('200 MiB left');
});

const failing = { lanes: 1, since: LATE };
const isBehind = reconcile({ state: 'backing-off', lastAt: LATE });
test.each<[string, Partial<Facts>, string]>([
  ['nothing', {}, ''],
  ['two refused deliveries', refused(2), ''],
  ['three refused deliveries', refused(3), 'deliveries_refused warning'],
  ['so many that the webhook is off', refused(15), 'deliveries_refused critical'],
  ['a key that the service refuses', reconcile({ state: 'stopped', reason: 'no' }), 'replay_stopped critical'],
  ['a service that never worked', reconcile({ state: 'backing-off', lastAt: null }), 'replay_behind warning'],
  [
    'a service that fails while tasks wait for it',
    { ...isBehind, ...crm({ heldSince: LATE }) },
    'replay_behind warning',
  ],
  ['a gap', { gaps: [GAP, GAP] }, 'gap critical'],
  ['a contradiction', { conflictAt: LATE }, 'conflict critical'],
  ['a broken file', crm({ state: 'broken', fault: 'x', dueSince: 1 }), 'handler_broken critical'],
  ['a missing file', crm({ state: 'missing', dueSince: 1 }), 'handler_broken warning'],
  ['a handler that fails, so work is due', crm({ failing, dueSince: LATE }), 'handler_failing warning'],
  [
    'a handler that gives most tasks up, while a young one fails',
    crm({ dead: 40, recent: { ended: 40, dead: 40 }, failing: { lanes: 1, since: AT - 2_000 } }),
    'handler_failing warning',
  ],
  ['a paused handler with old work', crm({ paused: true, dueSince: 1 }), ''],
  ['run down, so work is due', { ...processes({ run: 'down' }), ...crm({ dueSince: 1 }) }, 'process_down critical'],
])('one fault raises one alarm: %s', (_, change, expected) => {
  const list = alarmsOf(factsWith(change), ROOM).map(({ name, level }) => `${name} ${level}`);
  expect(list.join()).toBe(expected);
});

test('a full disk and a long log raise alarms; a full disk that refuses deliveries raises one', () => {
  const full = { ...ROOM, logBytes: 65 * 2 ** 20, freeBytes: 2 ** 20 };
  const names = (facts: Facts): string[] => alarmsOf(facts, full).map(({ name }) => name);
  expect(names(factsWith())).toEqual(['log_large', 'disk_full']);
  expect(names(factsWith(refused(3, 'store')))).toEqual(['log_large', 'disk_full']);
  const silent = { ...refused(3, 'store'), at: AT + 60_000, ...crm({ dueSince: 1 }) };
  expect(names(factsWith(silent))).toEqual(['log_large', 'disk_full']);
  expect(names(factsWith(refused(3)))).toEqual(['deliveries_refused', 'log_large', 'disk_full']);
});
