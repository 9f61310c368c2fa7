// The tasks of an event: their handlers, lanes and times of release, tested by tables.
import { expect, test } from 'vitest';
import { isUnproven, releaseAt, tasksOf, wants, type TaskOptions } from '../../src/run/new-tasks.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { StoredEvent, PendingEvents } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { handlerOf, storedEvent, T0 } from './fixture.ts';

const NOW = T0 + 5_000;

function from(fields: Partial<PendingEvents> = {}): PendingEvents {
  const birth = { at: T0, reading: 'none', end: null, older: null, younger: null } as const;
  return { from: 0, watermark: null, birth, events: [], decided: [], ...fields };
}

function tasksFor(event: StoredEvent, handlers: Partial<Loaded>[], options: Partial<TaskOptions> = {}, found = from()) {
  const loaded = new Map(handlers.map((handler, i) => [i + 1, handlerOf(handler)]));
  return tasksOf(event, found, {
    handlers: loaded,
    windowMs: 250,
    now: NOW,
    onLaneFault: () => {},
    ...options,
  });
}

function laneOf(event: StoredEvent, lane: Loaded['lane'], faults: unknown[] = []): string | null | undefined {
  return tasksFor(event, [{ lane }], { onLaneFault: (_, error) => void faults.push(error) })[0]?.lane;
}

const message = (data: Record<string, unknown>, fields: Partial<StoredEvent> = {}): StoredEvent =>
  storedEvent({
    type: 'MessageReceived',
    text: JSON.stringify({ type: 'MessageReceived', data: { MessageReceived: data } }),
    ...fields,
  });

test.each<[string, Cursor | null, Loaded['order'], string | null, number]>([
  ['arrival: at once', '10' as Cursor, 'arrival', null, NOW],
  ['window: so long after receipt', '10' as Cursor, 'window', null, T0 + 250],
  ['window, below the watermark: at once', '10' as Cursor, 'window', '11', NOW],
  ['window, at the watermark: at once', '10' as Cursor, 'window', '10', NOW],
  ['window, above the watermark', '10' as Cursor, 'window', '9', T0 + 250],
  ['window, above the watermark as integers', '100' as Cursor, 'window', '99', T0 + 250],
  ['window, below the watermark as integers', '99' as Cursor, 'window', '100', NOW],
  ['without a cursor there is nothing to wait for', null, 'window', null, NOW],
  ['strict, which goes by receipt', '10' as Cursor, 'strict', '9', T0],
  ['strict, also below the watermark', '10' as Cursor, 'strict', '11', T0],
  ['strict, without a cursor', null, 'strict', null, NOW],
])('the time of release: %s', (_, cursor, order, watermark, expected) => {
  expect(releaseAt({ cursor, receivedAt: T0 }, { order }, watermark as Cursor | null, 250, NOW)).toBe(expected);
});

test('F16: an event that was received before the clock was set back waits only for the window', () => {
  const event = { cursor: '10' as Cursor, receivedAt: NOW + 3_600_000 };
  expect(releaseAt(event, { order: 'window' }, null, 250, NOW)).toBe(NOW + 250);
});

test.each<[Loaded['on'], string, boolean]>([
  ['*', 'MessageReceived', true],
  ['*', 'NeverHeardOf', true],
  ['*', 'kit.gap', false],
  [new Set(['kit.gap']), 'kit.gap', true],
  [new Set(['MessageReceived', 'MessageSent']), 'MessageSent', true],
  [new Set(['MessageReceived']), 'messagereceived', false],
  [new Set(['constructor']), 'toString', false],
])('a handler on %o and an event of type %s: %o', (on, type, expected) => {
  expect(wants(handlerOf({ on }), type)).toBe(expected);
});

test('an event becomes one task for each handler that wants it', () => {
  const tasks = tasksFor(storedEvent({ seq: 7 }), [
    { on: '*' },
    { on: new Set(['Other']) },
    { on: new Set(['Thing']), order: 'arrival' },
  ]);
  expect(tasks).toEqual([
    { event: 7, handler: 1, lane: 'a', cursor: '1', releaseAt: T0 + 250 },
    { event: 7, handler: 3, lane: 'a', cursor: '1', releaseAt: NOW },
  ]);
});

test('a task of a strict handler is strict, unless its event has no cursor', () => {
  const strict = { order: 'strict' } as const;
  expect(tasksFor(storedEvent(), [strict])).toEqual([
    { event: 1, handler: 1, lane: '', cursor: '1', strict: true, releaseAt: T0 },
  ]);
  expect(tasksFor(storedEvent({ cursor: null }), [strict])[0]?.strict).toBeUndefined();
  expect(tasksFor(storedEvent(), [{ ...strict, lane: 'none' }])).toMatchObject([{ lane: 'c:1', strict: true }]);
});

test.each<[string, boolean, string | null, string | null, boolean]>([
  ['strict, above the watermark', true, '10', '9', true],
  ['strict, while there is no watermark', true, '10', null, true],
  ['strict, at the watermark', true, '10', '10', false],
  ['not strict', false, '10', '9', false],
  ['without a cursor', true, null, '9', false],
])('whether a task waits for the watermark: %s', (_, strict, cursor, watermark, expected) => {
  const task = { event: 1, handler: 1, lane: 'a', cursor: cursor as Cursor | null, strict, releaseAt: T0 };
  expect(isUnproven(task, { watermark: watermark as Cursor | null })).toBe(expected);
});

test('the lane is the conversation if the type defines one, else the session', () => {
  expect(laneOf(message({ from: 'x' }), 'conversation')).toBe('a/x');
  expect(laneOf(message({ from: 'x' }, { sessionId: null }), 'conversation')).toBe('/x');
  expect(laneOf(message({ from: 5 }), 'conversation')).toBe('a');
  expect(laneOf(storedEvent(), 'conversation')).toBe('a');
  expect(laneOf(message({ from: 'x' }), 'session')).toBe('a');
  expect(laneOf(storedEvent({ sessionId: null }), 'session')).toBe('');
  expect(laneOf(message({ from: 'x' }), 'none')).toBeNull();
});

test('a lane function names the lane, and cannot change the event', () => {
  expect(laneOf(message({ from: 'x' }), (event) => `mine/${String(event.data['from'])}`)).toBe('mine/x');
  expect(laneOf(storedEvent(), () => 'x'.repeat(10_000))).toHaveLength(500);
  expect(laneOf(message({ from: 'x' }), (event) => ((event.data as { from: string }).from = 'changed'))).toBe('a');
});

test.each<[string, Loaded['lane']]>([
  [
    'throws',
    () => {
      throw new Error('no');
    },
  ],
  [
    'throws a value that is no error',
    () => {
      throw null;
    },
  ],
  ['returns nothing', (() => undefined) as unknown as () => string],
  ['returns a promise', (async () => 'x') as unknown as () => string],
  ['returns an object that is no text', (() => ({ toString: () => 'x' })) as unknown as () => string],
])('a lane function that %s falls back to the session, and is reported', (_, lane) => {
  const faults: unknown[] = [];
  expect(laneOf(message({ from: 'x' }), lane, faults)).toBe('a');
  expect(faults).toHaveLength(1);
});

test('history makes tasks only for handlers that ask for it; an event that turns out to be new makes tasks for all', () => {
  const old = storedEvent({ origin: 'replay', createdAt: T0 - 1, text: '{"Thing":{}}' });
  const both = [{ history: false }, { history: true }];
  expect(tasksFor(old, both).map(({ handler }) => handler)).toEqual([2]);
  expect(tasksFor(old, both, { decided: true }).map(({ handler }) => handler)).toEqual([1, 2]);
});
