// How an attempt's end becomes an outcome, and how events are read and laid into lanes: tables.
import { describe, expect, test } from 'vitest';
import { Dead, RetryAfter, Skip } from '../../src/kit.ts';
import { createEventCache, laneOf, readEvent } from '../../src/run/event.ts';
import { wants, type Loaded } from '../../src/run/load.ts';
import { afterThrow, attemptOf, backoff, beforeRun } from '../../src/run/outcome.ts';
import type { Claimed, StoredEvent } from '../../src/store/work.ts';
import { handlerOf, message, stored, SESSION, T0, taskOf } from './fixture.ts';

const DAY_MS = 86_400_000;

test.each([
  [1, 0, 500],
  [3, 0.5, 2_000],
  [3, 1, 4_000],
  [1_000, 1, 60_000],
])('after attempt %i, with %d from the dice, the next one waits %i ms', (attempt, random, expected) => {
  expect(backoff(attempt, { attempts: 20, firstMs: 1_000, maxMs: 60_000 }, random)).toBe(expected);
});

test('an attempt has the next number, and one more after deaths', () => {
  expect([attemptOf(taskOf({ attempts: 3 })), attemptOf(taskOf({ attempts: 3, crashes: 8 }))]).toEqual([4, 5]);
});

describe('before the handler runs', () => {
  const old = stored({ createdAt: T0 - 60_000 });
  const ageless: Partial<StoredEvent> = { createdAt: null, origin: 'replay', body: '{"Thing":{}}' };
  const skip: Partial<Loaded> = { maxAgeMs: 1_000, onStale: 'skip' };
  test.each<[string, StoredEvent, Partial<Loaded>, string | null]>([
    ['an event that fits', stored(), {}, null],
    ['an erased one', stored({ body: null }), {}, 'skipped: the event was erased'],
    [
      'data that do not fit',
      message({ from: 5 }),
      {},
      'dead: data does not fit MessageReceived in src/events.ts: from',
    ],
    ['a damaged body', stored({ body: '{}' }), {}, 'dead: its stored body is damaged'],
    ['a stale one to run', old, { maxAgeMs: 1_000 }, null],
    ['a stale one to skip', old, skip, 'skipped: stale: 60 s old, but maxAgeMs allows 1 s'],
    ['a stale one to keep', old, { maxAgeMs: 1_000, onStale: 'dead' }, 'dead: stale'],
    ['one just as old as allowed', old, { ...skip, maxAgeMs: 60_000 }, null],
    ['a recovered one of unknown age', stored(ageless), skip, 'skipped: stale: of unknown age, from replay'],
    ['the same without a limit', stored(ageless), { onStale: 'skip' }, null],
    ['a delivered one of unknown age', stored({ createdAt: null }), skip, null],
  ])('%s', (_, event, handler, expected) => {
    const outcome = beforeRun(taskOf(), handlerOf(handler), readEvent(event), T0);
    expect(outcome && `${outcome.as}: ${outcome.error}`.slice(0, expected?.length)).toBe(expected);
  });
});

describe('after the handler threw', () => {
  const error = new Error('no');
  const soon = { retry: { attempts: 3, firstMs: 100, maxMs: 100 }, laneHoldMs: 1_000 };
  const after = (thrown: unknown, task: Partial<Claimed> = {}, draining = false) =>
    afterThrow(thrown, { task: taskOf(task), handler: handlerOf(soon), now: T0, draining });

  test.each<[string, unknown, Partial<Claimed>, object]>([
    ['Skip', new Skip('not mine'), {}, { as: 'skipped', error: 'not mine' }],
    ['Dead', new Dead('hopeless'), {}, { as: 'dead', error: 'hopeless' }],
    ['an error', error, {}, { as: 'again', spent: true, aside: false }],
    ['an error at the last attempt', error, { attempts: 2 }, { as: 'dead' }],
    ['an error after deaths, which spend none', error, { attempts: 1, crashes: 8 }, { as: 'again' }],
    ['an error within the hold', error, { failedAt: T0 - 900 }, { aside: false }],
    ['an error after it', error, { failedAt: T0 - 1_000 }, { aside: true }],
    ['RetryAfter', new RetryAfter(5, 'busy'), { attempts: 2 }, { dueAt: T0 + 5, spent: false, aside: false }],
    ['RetryAfter beyond the hold', new RetryAfter(1_001, 'busy'), {}, { aside: true, error: 'busy' }],
    ['RetryAfter for a year', new RetryAfter(365 * DAY_MS, 'busy'), {}, { dueAt: T0 + DAY_MS }],
    ['RetryAfter with a fraction', new RetryAfter(1.5, 'busy'), {}, { dueAt: T0 + 2 }],
    ['RetryAfter without a time', new RetryAfter(Number.NaN, 'busy'), {}, { as: 'again', spent: true }],
  ])('%s', (_, thrown, task, expected) => {
    expect(after(thrown, task)).toMatchObject(expected);
  });

  test('nothing counts while the kit stops, unless the handler has decided', () => {
    expect(after(error, { attempts: 2 }, true)).toBeNull();
    expect(after(new Dead('hopeless'), {}, true)).toMatchObject({ as: 'dead' });
  });

  test('people read the name, the message and the line of the error', () => {
    expect(after(new TypeError('no'))?.error).toMatch(/^TypeError: no \(test\/run\/outcome\.test\.ts:\d+\)$/);
  });
});

describe('an event', () => {
  test('is frozen, with defaults, with numbers as numbers, and with the fields that src/events.ts does not name', () => {
    const { event } = readEvent(message({ timestamp_unix_ms: '5', more: { deep: [1] } }));
    expect(event?.data).toMatchObject({ from: 'x', body: '', timestamp_unix_ms: 5, more: { deep: [1] } });
    expect(Object.isFrozen(event) && Object.isFrozen(event?.data['more'])).toBe(true);
    expect(event).toMatchObject({ key: 'c:1', cursor: '1', sessionId: 'a', receivedAt: '2026-01-01T00:00:00.000Z' });
    expect(readEvent(stored({ cursor: null })).key).toBe('i:id-1');
  });

  test('is parsed once for all handlers, unless it was erased meanwhile, and then forgotten', () => {
    const cache = createEventCache();
    const event = cache.read(stored());
    expect(cache.read(stored())).toBe(event);
    expect([cache.take(1), cache.take(1), cache.take(1)]).toEqual([event, event, undefined]);
    cache.read(stored());
    expect(cache.read(stored({ body: null })).event).toBeNull();
    expect(cache.take(1)?.event).toBeNull();
  });

  test.each<[string, StoredEvent, Loaded['lane'], string | null]>([
    ['none', stored(), 'none', null],
    ['the session of its data', stored({}, { session_id: 'b' }), 'session', 'b'],
    ['no session', stored(), 'session', ''],
    ['its conversation', message(), 'conversation', `${SESSION}/x`],
    ['no conversation', stored({}, { session_id: 'b' }), 'conversation', 'b'],
    ['erased', stored({ body: null }), 'conversation', 'a'],
    ['the name of a function', stored(), (event) => `mine/${event.type}`, 'mine/Thing'],
  ])('has the lane: %s', (_, event, lane, expected) => {
    expect(laneOf({ lane }, readEvent(event))).toBe(expected);
  });

  test.each<[string, () => unknown, RegExp]>([
    ['throws', () => expect.fail('no'), /^no$/],
    ['names nothing', () => undefined, /a value of type undefined, and not a string/],
    ['returns a promise', async () => 'x', /a value of type object/],
  ])('is a fault for the caller if a lane function %s', (_, lane, words) => {
    expect(() => laneOf({ lane: lane as () => string }, readEvent(stored()))).toThrow(words);
  });

  test.each<[Loaded['on'], string, boolean]>([
    ['*', 'NeverHeardOf', true],
    ['*', 'kit.gap', false],
    [new Set(['kit.gap', '*']), 'kit.gap', true],
    [new Set(['MessageSent']), 'messagesent', false],
  ])('on %o wants %s: %o', (on, type, expected) => {
    expect(wants({ on }, type)).toBe(expected);
  });
});
