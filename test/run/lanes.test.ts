// The lane of an event does not depend on its origin. The tests combine types, origins and orders, with and without a
// session and a time in the data.
import { array, assert, asyncProperty, boolean, constantFrom, record, shuffledSubarray } from 'fast-check';
import { expect, test } from 'vitest';
import { tasksOf } from '../../src/run/new-tasks.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { Store } from '../../src/store/store.ts';
import type { Settlement, StoredEvent } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readItem } from '../../src/wire/event.ts';
import { tries } from '../cases.ts';
import { storeKind } from '../stores.ts';
import { delivery, handlerOf, storedEvent, T0 } from './fixture.ts';

const SESSIONS = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'] as const;

const BIRTH = { at: 0, reading: 'none', end: null, older: null, younger: null } as const;

interface Happened {
  session: string;
  /** Whether the data names the session and the time. */
  full: boolean;
  /** Whether a webhook brings the event as well. */
  delivered: boolean;
}

function dataOf({ session, full }: Happened): Record<string, unknown> {
  return full ? { session_id: session, timestamp_unix_ms: T0 } : {};
}

function stored(data: object, fields: Partial<StoredEvent>): StoredEvent {
  const text = JSON.stringify(fields.origin === 'replay' ? { Thing: data } : { type: 'Thing', data: { Thing: data } });
  return storedEvent({ sessionId: null, text, ...fields });
}

function laneOf(event: StoredEvent, handler: Partial<Loaded>): string | null | undefined {
  const options = { windowMs: 250, now: T0, onLaneFault: () => {} };
  const handlers = new Map([[1, handlerOf(handler)]]);
  return tasksOf(event, { watermark: null, birth: BIRTH }, { handlers, ...options })[0]?.lane;
}

const byWebhook = { origin: 'webhook', sessionId: 'a' } as const;
const byReplay = { origin: 'replay', sessionId: null, createdAt: null, id: null } as const;

test.each<[string, Partial<Loaded>, object, string, string]>([
  ['strict, of a type that names no session', { order: 'strict' }, {}, '', ''],
  ['strict by session', { order: 'strict', lane: 'session' }, {}, '', ''],
  ['strict, whose data names its session', { order: 'strict' }, { session_id: 'a' }, 'a', 'a'],
  ['strict, by a function of its session', { order: 'strict', lane: (e) => `x${e.sessionId}` }, {}, 'xnull', 'xnull'],
  [
    'strict, by a function of id and time',
    { order: 'strict', lane: (e) => `${e.id} ${e.createdAt}` },
    {},
    'null null',
    'null null',
  ],
  ['strict, by a function that throws', { order: 'strict', lane: () => JSON.parse('') as string }, {}, '', ''],
  ['window', { order: 'window' }, {}, 'a', ''],
  ['arrival', { order: 'arrival' }, {}, 'a', ''],
  ['window, by a function', { order: 'window', lane: (e) => `x${e.sessionId}` }, {}, 'xa', 'xnull'],
])('E21: the lane of an event from a webhook and from replay: %s', (_, handler, data, webhook, replay) => {
  const session = 'session_id' in data ? { sessionId: 'a' } : {};
  expect(laneOf(stored(data, byWebhook), handler)).toBe(webhook);
  expect(laneOf(stored(data, { ...byReplay, ...session }), handler)).toBe(replay);
});

interface Handled {
  cursor: number;
  late: boolean;
  unproven: boolean;
  /** The cursors of the tasks that had ended when this task was claimed. */
  before: number[];
}

/** Runs webhooks and replay pages in the order of `actions`, and handles the tasks that are due in between. */
async function run(store: Store, happened: Happened[], actions: Action[], order: Loaded['order']): Promise<Handled[]> {
  const [id = 0] = (await store.work.register(['one'])).values();
  const handlers = new Map([[id, handlerOf({ order, history: true })]]);
  const handled: Handled[] = [];
  const ended: number[] = [];
  let now = T0;
  let watermark = 0;

  async function accept(readings: ReturnType<typeof delivery>[], upTo?: number): Promise<void> {
    await store.ingest.accept({ readings, now, ...(upTo !== undefined && { watermark: String(upTo) as Cursor }) });
    for (let settle: Settlement[] = []; ;) {
      const found = await store.work.pending(1_000);
      const tasks = found.events.flatMap((event) =>
        tasksOf(event, found, { handlers, windowMs: 250, now, onLaneFault: () => {} }),
      );
      const last = found.events.at(-1);
      const fanOut = last ? { from: found.from, upTo: last.seq, tasks } : null;
      const { claims } = await store.work.turn({ now, boot: 1, settle, fanOut, room: 1_000, handlers: [id] });
      if (claims.length === 0 && !fanOut && settle.length === 0) return;
      const before = [...ended];
      for (const { event, late, unproven } of claims)
        handled.push({ cursor: Number(event.cursor), late, unproven, before });
      ended.push(...claims.map(({ event }) => Number(event.cursor)));
      settle = claims.map((claim) => ({ claim, state: 'done', error: null }));
    }
  }

  for (const action of [...actions, { replayTo: happened.length }]) {
    now += 300;
    const n = 'webhook' in action ? action.webhook : -1;
    const one = happened[n];
    if (one?.delivered) {
      await accept([delivery({ cursor: n + 1, session: one.session, data: dataOf(one) })]);
    } else if ('replayTo' in action && action.replayTo > watermark) {
      const page = happened.slice(watermark, action.replayTo).map((each, i) => {
        const payload = JSON.stringify({ Thing: dataOf(each) });
        return readItem('replay', String(watermark + i + 1) as Cursor, payload);
      });
      watermark = action.replayTo;
      await accept(page, watermark);
    }
  }
  now += 300;
  await accept([]);
  return handled;
}

type Action = { webhook: number } | { replayTo: number };

const MOST = 8;
const story = record({
  happened: array(record({ session: constantFrom(...SESSIONS), full: boolean(), delivered: boolean() }), {
    minLength: 2,
    maxLength: MOST,
  }),
  actions: shuffledSubarray<Action>(
    [
      ...Array.from({ length: MOST }, (_, webhook) => ({ webhook })),
      ...Array.from({ length: MOST }, (_, n) => ({ replayTo: n + 1 })),
    ],
    { minLength: 4 },
  ),
});

async function holds(order: Loaded['order'], check: (all: Handled[], happened: Happened[]) => void): Promise<void> {
  await assert(
    asyncProperty(story, async ({ happened, actions }) => {
      const store = storeKind.open(':memory:', { owner: true });
      try {
        const within = actions.filter((one) => !('replayTo' in one) || one.replayTo <= happened.length);
        const handled = await run(store, happened, within, order);
        const cursors = handled.map(({ cursor }) => cursor).toSorted((a, b) => a - b);
        expect(cursors).toEqual(happened.map((_, i) => i + 1));
        check(handled, happened);
      } finally {
        store.close();
      }
    }),
    { numRuns: tries(150) },
  );
}

test('E21: strict order holds within each lane, whatever the origin of its events', () =>
  holds('strict', (handled, happened) => {
    const lane = (cursor: number): string => {
      const one = happened[cursor - 1];
      return one?.full ? one.session : '';
    };
    for (const { cursor, late, before } of handled) {
      expect(before.filter((other) => other > cursor && lane(other) === lane(cursor))).toEqual([]);
      expect(late).toBe(false);
    }
  }));

test('E21: an event recovered without its session is late if the handler has finished a later event of any lane', () =>
  holds('window', (handled, happened) => {
    const first = new Set<number>();
    for (const { cursor, late, before } of handled) {
      const one = happened[cursor - 1];
      if (!one || one.full || one.delivered) continue;
      first.add(cursor);
      expect({ cursor, late }).toEqual({ cursor, late: before.some((other) => other > cursor) });
    }
  }));

test('E21: an event recovered without its session is also late after a restart, and if its task is isolated', async () => {
  const store = storeKind.open(':memory:', { owner: true });
  const [id = 0] = (await store.work.register(['one'])).values();
  const task = (event: number, lane: string, cursor: string) => ({
    ...{ event, handler: id, lane, cursor: cursor as Cursor, releaseAt: T0 },
  });
  const turn = { now: T0, boot: 1, settle: [], fanOut: null, room: 10, handlers: [id] };
  await store.ingest.accept({ readings: [delivery({ cursor: 9 })], now: T0 });
  const { claims } = await store.work.turn({ ...turn, fanOut: { from: 0, upTo: 1, tasks: [task(1, 'a', '9')] } });
  await store.work.turn({ ...turn, settle: claims.map((claim) => ({ claim, state: 'done', error: null })) });
  await store.ingest.accept({ readings: [readItem('replay', '5' as Cursor, '{"Thing":{}}')], now: T0 });
  // A step of the clock makes the store read the lanes again, as a restart does.
  await store.work.clockStepped(2_000, T0);
  const [recovered] = (await store.work.turn({ ...turn, fanOut: { from: 1, upTo: 2, tasks: [task(2, '', '5')] } }))
    .claims;
  expect(recovered).toMatchObject({ event: { cursor: '5' }, late: true });
  await store.processes.giveBack([], T0);
  const again = await store.work.claimIsolated(T0 + 3_600_000, 2, [id]);
  expect(again).toMatchObject({ event: { cursor: '5' }, late: true });
  store.close();
});
