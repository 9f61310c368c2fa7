// One attempt: each way in which a handler can end, and its settlement.
import { describe, expect, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import { staleness } from '../../src/run/settlement.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import { Dead, RetryAfter, Skip } from '../../src/kit.ts';
import type { Settlement } from '../../src/store/work.ts';
import { claimed, settle, start, throwing } from './attempts.ts';
import { storedEvent, T0 } from './fixture.ts';

const DAY_MS = 86_400_000;

function spends({ spent }: Settlement): boolean {
  return spent !== false;
}

describe('a handler that', () => {
  test.each<[string, Loaded['handle']]>([
    ['returns', () => {}],
    ['resolves', async () => {}],
    ['returns something', (() => 5) as unknown as Loaded['handle']],
    ['returns a thenable', (() => ({ then: (resolve: () => void) => resolve() })) as unknown as Loaded['handle']],
  ])('%s is done', async (_, handle) => {
    expect(await settle(handle)).toMatchObject({ state: 'done', error: null });
  });

  test('throws is retried after the back-off, holds its lane, and has spent an attempt', async () => {
    const settlement = await settle(throwing(new TypeError('no')), claimed(), { laneHoldMs: 7 });
    expect(settlement).toMatchObject({
      state: 'ready',
      error: expect.stringMatching(/^TypeError: no \(test/),
      holdMs: 7,
    });
    expect(spends(settlement)).toBe(true);
    const { dueAt } = settlement as { dueAt: number };
    expect(dueAt).toBeGreaterThanOrEqual(T0 + 500);
    expect(dueAt).toBeLessThanOrEqual(T0 + 1_000);
  });

  test('throws at its last attempt makes a dead letter', async () => {
    expect(await settle(throwing(new Error('no')), claimed({ attempt: 20 }))).toMatchObject({
      state: 'dead',
      error: expect.stringMatching(/^Error: no \(test/),
    });
    expect(await settle(throwing(new Error('no')), claimed({ attempt: 19 }))).toMatchObject({ state: 'ready' });
  });

  test('has no attempt left, because its process crashed during the last one, makes a dead letter and is not run', async () => {
    let ran = false;
    const handle = () => void (ran = true);
    expect(await settle(handle, claimed({ attempt: 21, error: 'the process crashed' }))).toMatchObject({
      state: 'dead',
      error: 'the process crashed',
    });
    expect(await settle(handle, claimed({ attempt: 21 }))).toMatchObject({ state: 'dead', error: 'no attempts left' });
    expect(ran).toBe(false);
  });

  test('throws Skip or Dead ends its task, however many attempts are left', async () => {
    expect(await settle(throwing(new Skip('not ours')))).toMatchObject({ state: 'skipped', error: 'not ours' });
    expect(await settle(throwing(new Dead('hopeless')))).toMatchObject({ state: 'dead', error: 'hopeless' });
    expect(await settle(throwing(new Skip('not ours')), claimed({ attempt: 20 }))).toMatchObject({ state: 'skipped' });
  });

  test('throws RetryAfter is delayed without spending an attempt, even at its last one', async () => {
    const expected = { state: 'ready', error: 'busy', dueAt: T0 + 5_000, spent: false, deferredMs: 5_000 };
    expect(await settle(throwing(new RetryAfter(5_000, 'busy')))).toMatchObject(expected);
    expect(await settle(throwing(new RetryAfter(5_000, 'busy')), claimed({ attempt: 20 }))).toMatchObject(expected);
  });

  test('throws RetryAfter is delayed for at most 24 h in all, and then counts as failed', async () => {
    const long = throwing(new RetryAfter(365 * DAY_MS, 'busy'));
    expect(await settle(long)).toMatchObject({ dueAt: T0 + DAY_MS, deferredMs: DAY_MS, spent: false });
    expect(await settle(long, claimed({ deferredMs: DAY_MS - 60_000 }))).toMatchObject({
      dueAt: T0 + 60_000,
      deferredMs: 60_000,
    });
    const failed = await settle(long, claimed({ deferredMs: DAY_MS }));
    expect([failed.state, spends(failed)]).toEqual(['ready', true]);
    expect(await settle(long, claimed({ deferredMs: DAY_MS, attempt: 20 }))).toMatchObject({ state: 'dead' });
  });

  test.each([Number.NaN, -1, '5' as unknown as number, Infinity])(
    'throws RetryAfter(%o) gets a due time that the store can hold',
    async (ms) => {
      const settlement = await settle(throwing(new RetryAfter(ms, 'busy')));
      expect(settlement.state).toBe('ready');
      const { dueAt } = settlement as { dueAt: number };
      expect(Number.isSafeInteger(dueAt) && dueAt >= T0 && dueAt <= T0 + DAY_MS).toBe(true);
    },
  );

  test('throws RetryAfter with a fraction of a millisecond gets a due time in whole milliseconds', async () => {
    const { dueAt } = (await settle(throwing(new RetryAfter(1.5, 'busy')))) as { dueAt: number };
    expect(Number.isInteger(dueAt)).toBe(true);
  });

  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const bomb = (name: string): unknown =>
    Object.defineProperty(new Error('x'), name, {
      get() {
        throw new Error('bomb');
      },
    });
  test.each<[string, unknown]>([
    ['a text', 'no'],
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['a symbol', Symbol('no')],
    ['a frozen error', Object.freeze(new Error('no'))],
    ['an object without a prototype', Object.create(null)],
    ['an error whose message explodes', bomb('message')],
    ['an error whose name explodes', bomb('name')],
    ['an error whose stack explodes', bomb('stack')],
    ['an error whose cause explodes', bomb('cause')],
    ['an object whose toString explodes', { toString: throwing(new Error('bomb')) }],
    ['a revoked proxy', revoked.proxy],
    ['an error with a megabyte of message', new Error('x'.repeat(1_000_000))],
    ['a function', () => {}],
  ])('F21: throws %s, or rejects with it, has failed an attempt', async (_, thrown) => {
    for (const handle of [throwing(thrown), async () => throwing(thrown)({} as KitEvent, {} as Context)]) {
      const settlement = await settle(handle);
      expect([settlement.state, spends(settlement)]).toEqual(['ready', true]);
      expect(typeof settlement.error).toBe('string');
      expect(settlement.error?.length).toBeLessThan(3_000);
    }
  });

  test('F22: never resolves has failed after its time limit, and its signal is aborted', async () => {
    const { promise, resolve } = Promise.withResolvers<AbortSignal>();
    const handle = (_: KitEvent, ctx: Context): Promise<void> => {
      resolve(ctx.signal);
      return new Promise(() => {});
    };
    expect(await settle(handle, claimed(), { timeoutMs: 5 })).toMatchObject({
      state: 'ready',
      error: 'Timeout: no result within 5 ms',
    });
    expect((await promise).aborted).toBe(true);
  });

  test('reads its signal only after its time limit finds the signal aborted', async () => {
    let ctx: Context | undefined;
    await settle(
      (_, given) => {
        ctx = given;
        return new Promise(() => {});
      },
      claimed(),
      { timeoutMs: 5 },
    );
    expect(ctx?.signal.aborted).toBe(true);
  });

  test('has resolved stays done when the attempt is drained and abandoned', async () => {
    const attempt = start({ handle: async () => {} });
    expect(await attempt.settled).toMatchObject({ state: 'done' });
    attempt.abandon();
    attempt.drain();
    expect(await attempt.settled).toMatchObject({ state: 'done' });
  });
});

describe('data', () => {
  test('I55: that do not fit their type make a dead letter that names the field, and the handler is not run', async () => {
    let ran = false;
    const text = JSON.stringify({
      data: {
        MessageReceived: {
          session_id: '00000000-0000-4000-8000-00000000000a',
          from: 'x',
          message_id: 'm',
          is_group: 'yes',
        },
      },
    });
    const claim = claimed({ event: storedEvent({ type: 'MessageReceived', text }) });
    const settlement = await settle(() => void (ran = true), claim);
    expect(settlement).toMatchObject({ state: 'dead' });
    expect(settlement.error).toContain('is_group');
    expect(ran).toBe(false);
  });

  test('that were purged make a dead letter that says so', async () => {
    const settlement = await settle(() => {}, claimed({ event: storedEvent({ text: null }) }));
    expect(settlement).toMatchObject({ state: 'dead' });
    expect(settlement.error).toContain('purged');
  });
});

describe('whether an event is stale', () => {
  test.each<[string, Parameters<typeof storedEvent>[0], number | null, number, boolean]>([
    ['no limit', { createdAt: 0 }, null, T0, false],
    ['as old as allowed', { createdAt: T0 }, 1_000, T0 + 1_000, false],
    ['older than allowed', { createdAt: T0 }, 1_000, T0 + 1_001, true],
    ['from the future', { createdAt: T0 + 5_000 }, 0, T0, false],
    ['delivered, of unknown age', { createdAt: null, origin: 'webhook' }, 1_000, T0, false],
    ['replayed, of unknown age', { createdAt: null, origin: 'replay' }, 1_000, T0, true],
    ['streamed, of unknown age', { createdAt: null, origin: 'stream' }, 1_000, T0, true],
    ["the kit's own, of unknown age", { createdAt: null, origin: 'kit' }, 1_000, T0, false],
  ])('%s', (_, event, maxAgeMs, now, stale) => {
    expect(staleness(claimed({ event: storedEvent(event) }), { maxAgeMs }, now) !== undefined).toBe(stale);
  });

  test.each([
    ['run', 'done'],
    ['skip', 'skipped'],
    ['dead', 'dead'],
  ] as const)('a stale event, with onStale %s, is %s', async (onStale, state) => {
    let ran = false;
    const claim = claimed({ event: storedEvent({ createdAt: T0 - 60_000 }) });
    const settlement = await settle(() => void (ran = true), claim, { maxAgeMs: 1_000, onStale });
    expect(settlement.state).toBe(state);
    expect(ran).toBe(state === 'done');
    if (state !== 'done') expect(settlement.error).toBe('stale: 60 s old, at most 1 s wanted');
  });
});

describe('a drain', () => {
  const untilAborted = (_: KitEvent, { signal }: Context): Promise<void> =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));

  test('counts no attempt and holds no lane if the handler fails when its signal is aborted', async () => {
    const attempt = start({ handle: untilAborted }, claimed({ error: 'an earlier failure' }));
    attempt.drain();
    expect(await attempt.settled).toMatchObject({
      state: 'ready',
      spent: false,
      holdMs: null,
      dueAt: T0,
      error: 'an earlier failure',
    });
  });

  test('counts no attempt if the handler ignores its signal and the attempt is abandoned', async () => {
    const attempt = start({ handle: () => new Promise(() => {}) }, claimed({ attempt: 20 }));
    attempt.drain();
    attempt.abandon();
    expect(await attempt.settled).toMatchObject({ state: 'ready', spent: false });
  });

  test('lets a handler finish if it still can', async () => {
    const gate = Promise.withResolvers<void>();
    const attempt = start({ handle: () => gate.promise });
    attempt.drain();
    gate.resolve();
    expect(await attempt.settled).toMatchObject({ state: 'done' });
  });
});
