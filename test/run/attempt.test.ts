// One attempt: each way in which a handler can end, and its settlement. The store is real, and the clock is set by the
// test.
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test, vi } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import type { Scope } from '../../src/run/stray-errors.ts';
import { logEnd } from '../../src/run/attempt-log.ts';
import { startAttempt, type Attempt } from '../../src/run/attempt.ts';
import type { ServiceFor } from '../../src/run/runner-options.ts';
import { staleness } from '../../src/run/settlement.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import { Dead, RetryAfter, Skip } from '../../src/kit.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import type { Claim, Settlement, WorkStore } from '../../src/store/work.ts';
import {
  claimOf,
  createClock,
  createLines,
  createStore,
  delivery,
  handlerOf,
  storedEvent,
  T0,
  type Sent,
  noService,
} from './fixture.ts';

const DAY_MS = 86_400_000;

function claimed(fields: Partial<Claim> = {}): Claim {
  return {
    task: 4_097,
    handler: 1,
    event: storedEvent(),
    lane: 1,
    rerun: 0,
    alone: false,
    attempt: 1,
    boot: 1,
    late: false,
    unproven: false,
    startedAt: T0,
    deferredMs: 0,
    error: null,
    chain: { recalled: false },
    notes: {},
    ...fields,
  };
}

const SERVICE = { call: async () => {} };
/** `ctx.service`, typed so that these tests also compile in a kit without the module `service`. */
const serviceOf = (ctx: object): typeof SERVICE => (ctx as { service: typeof SERVICE }).service;

function start(
  handler: Partial<Loaded>,
  claim = claimed(),
  store: Pick<WorkStore, 'complete' | 'noteTask' | 'read'> = never,
  clock = createClock(),
): Attempt {
  const { log } = createLines();
  return startAttempt(claim, handlerOf(handler), {
    store,
    serviceFor: noService,
    clock,
    log,
    scopes: new AsyncLocalStorage(),
  });
}

/** The store of attempts that do not call `ctx.complete`. */
const never: Pick<WorkStore, 'complete' | 'noteTask' | 'read'> = {
  complete: () => Promise.reject(new Error('no store in this test')),
  noteTask: () => Promise.reject(new Error('no store in this test')),
  read: () => Promise.reject(new Error('no store in this test')),
};

async function settle(handle: Loaded['handle'], claim = claimed(), handler: Partial<Loaded> = {}): Promise<Settlement> {
  const settlement = await start({ ...handler, handle }, claim).settled;
  if (!settlement) throw new Error('expected a settlement');
  return settlement;
}

function throwing(thrown: unknown): Loaded['handle'] {
  return () => {
    throw thrown;
  };
}

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

describe('ctx.complete', () => {
  const tables = (store: Store): Promise<void> =>
    store.work.setup((tx) => void tx.run('create table mine (n integer)'));

  async function complete(
    handle: Loaded['handle'],
    handler: Partial<Loaded> = {},
  ): Promise<{ store: Store; claim: Claim; settlement: Settlement | null }> {
    const store = createStore();
    await tables(store);
    const claim = await claimOf(store);
    const settlement = await start({ ...handler, handle }, claim, store.work).settled;
    return { store, claim, settlement };
  }

  async function countOf(store: Store): Promise<unknown> {
    let n: unknown;
    await store.work.setup(async (tx) => void (n = (await tx.get('select count(*) as n from mine'))?.['n']));
    return n;
  }

  test('commits its writes and ends the task, and nothing is left to settle', async () => {
    const { store, settlement } = await complete((_, ctx) =>
      ctx.complete((tx) => void tx.run('insert into mine values (1)')),
    );
    expect(settlement).toBeNull();
    expect(await countOf(store)).toBe(1);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 1, running: 0 });
  });

  test('makes the task done even if the handler throws afterwards', async () => {
    const { store, settlement } = await complete(async (_, ctx) => {
      await ctx.complete(() => {});
      throw new Error('too late');
    });
    expect(settlement).toBeNull();
    expect((await store.read.status(T0)).tasks.done).toBe(1);
  });

  test('with work that throws fails the attempt and writes nothing', async () => {
    const { store, settlement } = await complete((_, ctx) =>
      ctx.complete((tx) => {
        void tx.run('insert into mine values (1)');
        throw new Error('no');
      }),
    );
    expect(settlement).toMatchObject({ state: 'ready', error: expect.stringMatching(/^Error: no \(test/) });
    expect(await countOf(store)).toBe(0);
  });

  test.each(['its time is over', 'the handler has returned', 'the handler has thrown'])(
    'committed, but not yet synced when %s: the task is done, once',
    async (how) => {
      const store = createStore();
      await tables(store);
      const claim = await claimOf(store);
      const disk = Promise.withResolvers<void>();
      const slow: WorkStore = {
        ...store.work,
        complete: async (...given) => {
          const held = await store.work.complete(...given);
          await disk.promise;
          return held;
        },
      };
      const handle = async (_: KitEvent, ctx: Context): Promise<void> => {
        ctx.signal.addEventListener('abort', () => disk.resolve());
        const completing = ctx.complete((tx) => void tx.run('insert into mine values (1)'));
        if (how === 'its time is over') await completing;
        completing.catch(() => {});
        if (how === 'the handler has thrown') throw new Error('after the commit');
      };
      const attempt = start({ handle, timeoutMs: 1, retry: { attempts: 1, firstMs: 1, maxMs: 1 } }, claim, slow);
      expect(await attempt.settled).toBeNull();
      expect(await countOf(store)).toBe(1);
      expect((await store.read.status(T0)).tasks).toMatchObject({ done: 1, running: 0, dead: 0 });
    },
  );

  test.each(['busy', 'unwritable'] as const)('waits while the store is %s, and the handler runs once', async (code) => {
    const store = createStore();
    await tables(store);
    const claim = await claimOf(store);
    let [tries, runs] = [0, 0];
    const away: WorkStore = {
      ...store.work,
      complete: async (...given) => {
        if (++tries < 3) throw new StoreError(code, 'the store is away');
        return store.work.complete(...given);
      },
    };
    const handle = (_: KitEvent, ctx: Context): Promise<void> => {
      runs++;
      return ctx.complete((tx) => void tx.run('insert into mine values (1)'));
    };
    expect(await start({ handle }, claim, away).settled).toBeNull();
    expect({ tries, runs, rows: await countOf(store) }).toEqual({ tries: 3, runs: 1, rows: 1 });
  });

  test('that waits for the store until its time is over fails with the error of the store', async () => {
    const store = createStore();
    const away = { ...store.work, complete: () => Promise.reject(new StoreError('unwritable', 'the store is away')) };
    const handle = (_: KitEvent, ctx: Context): Promise<void> => ctx.complete(() => {});
    const attempt = start({ handle, timeoutMs: 5 }, await claimOf(store), away);
    expect(await attempt.settled).toMatchObject({
      state: 'ready',
      error: expect.stringContaining('the store is away'),
    });
  });

  test('with work that throws counts as done if the handler catches the error', async () => {
    const { store, settlement } = await complete((_, ctx) => {
      ctx
        .complete(() => {
          throw new Error('no');
        })
        .catch(() => {});
    });
    expect(settlement).toMatchObject({ state: 'done' });
    expect(await countOf(store)).toBe(0);
  });

  test('throws if it is called a second time, and the first completion stays', async () => {
    const { store, settlement } = await complete(async (_, ctx) => {
      await ctx.complete(() => {});
      await ctx.complete((tx) => void tx.run('insert into mine values (2)'));
    });
    expect(settlement).toBeNull();
    expect(await countOf(store)).toBe(0);
  });

  test.each([
    ['a second completion', (ctx: Context) => ctx.complete(() => {})],
    ['a note', (ctx: Context) => ctx.note('name', 1)],
  ])('%s after it throws an error that says why, and the handler is logged as failed', async (_, call) => {
    const store = createStore();
    const claim = await claimOf(store);
    const errors: string[] = [];
    const handle = async (event: KitEvent, ctx: Context): Promise<void> => {
      await ctx.complete(() => {});
      await call(ctx).catch((error: Error) => {
        errors.push(error.message);
        throw error;
      });
    };
    const attempt = start({ handle }, claim, store.work);
    const settlement = await attempt.settled;
    expect(errors).toEqual(['ctx.complete has ended this task: call it once, and ctx.note before it']);
    const { log, lines } = createLines();
    logEnd({ log, tellsWhy: false }, { claim, handler: handlerOf({ handle }), settlement, attempt, ms: 1 });
    expect(lines).toMatchObject([
      { level: 40, verdict: 'done', error: 'Error', msg: expect.stringContaining('stays') },
    ]);
    expect(JSON.stringify(lines)).not.toContain('has ended this task');
  });

  test('after the time limit, when the failure was written, throws and writes nothing (F22)', async () => {
    const gate = Promise.withResolvers<void>();
    const came = Promise.withResolvers<unknown>();
    const handle = async (_: KitEvent, ctx: Context): Promise<void> => {
      await gate.promise;
      await ctx.complete((tx) => void tx.run('insert into mine values (1)')).then(came.resolve, came.resolve);
    };
    const { store, settlement } = await complete(handle, { timeoutMs: 5 });
    if (!settlement) throw new Error('expected a timeout');
    await store.work.turn({ now: T0, boot: 1, settle: [settlement], fanOut: null, room: 0, handlers: [] });
    gate.resolve();
    expect(String(await came.promise)).toContain('the claim is gone');
    expect(await countOf(store)).toBe(0);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 0, ready: 1 });
  });

  test('is refused after the end of its attempt, even if the task was claimed again with the same attempt number', async () => {
    const gate = Promise.withResolvers<void>();
    const came = Promise.withResolvers<unknown>();
    const { store, claim, settlement } = await complete((_, ctx) => {
      void gate.promise.then(() => ctx.complete(() => {})).then(came.resolve, came.resolve);
      throw new RetryAfter(1, 'busy');
    });
    if (!settlement) throw new Error('expected to be put off');
    const turn = { now: T0 + 1, boot: 1, fanOut: null, room: 1, handlers: [claim.handler] };
    await store.work.turn({ ...turn, settle: [settlement] });
    gate.resolve();
    expect(await came.promise).toBeInstanceOf(Error);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 0, running: 1 });
  });
});

describe('the arguments of a handler', () => {
  async function given(
    sent: Sent = {},
    fields: Partial<Claim> = {},
  ): Promise<{ event: KitEvent; ctx: Context; lines: Record<string, unknown>[] }> {
    const store = createStore();
    const claim = { ...(await claimOf(store, delivery(sent))), ...fields };
    const { log, lines } = createLines();
    const got = Promise.withResolvers<[KitEvent, Context]>();
    const handle = (event: KitEvent, ctx: Context): void => {
      ctx.log.info({ n: 1 }, 'hello');
      got.resolve([event, ctx]);
    };
    const options = {
      store: store.work,
      serviceFor: (() => SERVICE) as unknown as ServiceFor,
      clock: createClock(T0 + 500),
      log,
      scopes: new AsyncLocalStorage<Scope>(),
    };
    await startAttempt(claim, handlerOf({ handle }), options).settled;
    const [event, ctx] = await got.promise;
    return { event, ctx, lines };
  }

  test('ctx has the number of the attempt, its lag, and the idempotency key', async () => {
    const { ctx } = await given({ cursor: 42 }, { attempt: 3, late: true, unproven: true });
    const { attempt, late, unproven, lagMs, idempotencyKey } = ctx;
    expect({ attempt, late, unproven, lagMs, idempotencyKey }).toEqual({
      attempt: 3,
      late: true,
      unproven: true,
      lagMs: 500,
      idempotencyKey: 'one/c:42',
    });
    expect(serviceOf(ctx)).toBe(SERVICE);
  });

  test('the lag is never negative, and null if the age of the event is unknown', async () => {
    expect((await given({ createdAt: T0 + 60_000 })).ctx.lagMs).toBe(0);
    const unknown = delivery({ data: {} });
    expect('event' in unknown).toBe(true);
    const { ctx } = await given({}, { event: storedEvent({ createdAt: null }) });
    expect(ctx.lagMs).toBeNull();
  });

  test('each line of ctx.log has the handler and the key', async () => {
    expect((await given()).lines).toMatchObject([{ handler: 'one', key: 'c:1', n: 1, msg: 'hello' }]);
  });

  test('F27: the event is frozen, and its data cannot pollute prototypes (I30)', async () => {
    const data = JSON.parse('{"__proto__":{"polluted":true},"list":[{}]}') as Record<string, unknown>;
    const { event } = await given({ data });
    expect(Object.isFrozen(event) && Object.isFrozen(event.data) && Object.isFrozen(event.data['list'])).toBe(true);
    expect(() => ((event as { id: string | null }).id = 'x')).toThrow(TypeError);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

test('every table of the kit is refused to handlers', async () => {
  const store = createStore();
  let names: string[] = [];
  await store.work.setup(async (tx) => {
    const rows = await tx.all(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`);
    names = rows.map(({ name }) => String(name));
  });
  expect(names).toContain('owed');
  expect(names.length).toBeGreaterThan(25);
  const verbs = ['delete from', 'drop table', 'create table if not exists', 'insert into', 'update', 'alter table'];
  for (const name of names)
    for (const verb of verbs)
      await expect(
        store.work.setup((tx) => void tx.run(`${verb} ${name}`)),
        `${verb} ${name}`,
      ).rejects.toThrow('the tables of the kit');
});

test('words of the kit in values, comments and longer names are no writes to its tables', async () => {
  const store = createStore();
  await store.work.setup(async (tx) => {
    await tx.run('create table my_state (text text) -- not into state');
    await tx.run(`insert into my_state values ('update state')`);
    await tx.run('create index my_state_by_text on my_state (text)');
    await tx.run('update my_state set text = (select max(name) from state)');
    await tx.run('create temp table mine_for_now (n integer)');
    expect(await tx.all('select count(*) as n from my_state')).toEqual([{ n: 1 }]);
  });
});

test.each([
  'commit',
  ' -- a word\n rollback',
  'savepoint one',
  'pragma synchronous = off',
  "attach database 'x' as y",
  'delete from tasks',
  'insert into events (seq) values (1)',
  'update state set value = 0',
  'drop table if exists lanes',
  'delete from "main"."tasks"',
  "delete from 'tasks'",
  'insert into/**/events (seq) values (1)',
  'create temp table if not exists state (name text)',
  'create temporary view tasks as select 1',
  'create trigger mine_too after insert on events begin select 1; end',
  'create index mine_too on events (type)',
  'drop index events_by_cursor',
  'drop trigger if exists lanes_with_tasks',
  'create table [state] (name text)',
])('a handler may not run %j, and no write of the same work is committed', async (sql) => {
  const store = createStore();
  const work = store.work.setup((tx) => {
    void tx.run('create table mine (id text)');
    void tx.run(sql);
  });
  await expect(work).rejects.toThrow('handler');
  await store.work.setup(async (tx) => {
    expect(await tx.all(`select name from sqlite_schema where name = 'mine'`)).toEqual([]);
  });
});

test('a call to the service after the time limit of the handler is aborted', async () => {
  const asked: (boolean | undefined)[] = [];
  const over = Promise.withResolvers<void>();
  const serviceFor = ((ends: AbortSignal) => ({
    call: async () => void asked.push(ends.aborted),
  })) as unknown as ServiceFor;
  const handle: Loaded['handle'] = async (_, ctx) => {
    await serviceOf(ctx).call();
    await over.promise;
    await serviceOf(ctx).call();
  };
  const handler = handlerOf({ timeoutMs: 1, handle });
  const { log } = createLines();
  const attempt = startAttempt(claimed(), handler, {
    store: never,
    serviceFor,
    clock: createClock(),
    log,
    scopes: new AsyncLocalStorage(),
  });
  await attempt.settled;
  over.resolve();
  await vi.waitFor(() => expect(asked).toEqual([false, true]));
});

describe('ctx.note', () => {
  async function run(handle: Loaded['handle'], fields: Partial<Claim> = {}, handler: Partial<Loaded> = {}) {
    const store = createStore();
    const claim = { ...(await claimOf(store)), ...fields };
    return { store, claim, settlement: await start({ ...handler, handle }, claim, store.work).settled };
  }

  test('shows what was noted, before and in this attempt', async () => {
    const seen: unknown[] = [];
    await run(
      async (_, ctx) => {
        seen.push({ ...ctx.notes });
        await ctx.note('sent', { id: 7 });
        seen.push({ ...ctx.notes });
      },
      { notes: { begun: 'true' } },
    );
    expect(seen).toEqual([{ begun: true }, { begun: true, sent: { id: 7 } }]);
  });

  test.each([
    ['no name', '', 1, '1 to 100 characters'],
    ['a long name', 'x'.repeat(101), 1, '1 to 100 characters'],
    ['a name with NUL, which PostgreSQL cannot store', 'a\0', 1, 'without NUL'],
    ['a name with half a character', 'a\uD800', 1, 'characters of Unicode'],
    ['no JSON', 'a', undefined, 'has no JSON'],
    ['more than 1 KiB', 'a', 'é'.repeat(512), 'exceeds 1024 bytes'],
  ])('refuses %s', async (_, name, value, error) => {
    const { settlement } = await run((__, ctx) => ctx.note(name, value));
    expect(settlement?.error).toContain(error);
  });

  test('throws after the attempt has ended, and writes nothing', async () => {
    const late = Promise.withResolvers<Context>();
    const { store, claim } = await run(async (_, ctx) => late.resolve(ctx));
    await expect((await late.promise).note('begun', true)).rejects.toThrow('the claim is gone');
    expect(await store.work.read('select name from notes where task = ?', [claim.task])).toEqual([]);
  });

  test('throws if another attempt holds the claim', async () => {
    const { settlement } = await run((_, ctx) => ctx.note('begun', true), { boot: 99 });
    expect(settlement?.error).toContain('the claim is gone');
  });

  test('is refused inside ctx.complete, with a rollback', async () => {
    const { settlement } = await run((_, ctx) => ctx.complete(() => ctx.note('begun', true)));
    expect(settlement?.error).toContain('only tx may be awaited');
  });
});

test('ctx.read returns rows of the handler, and refuses to write', async () => {
  const store = createStore();
  await store.work.setup((tx) => tx.run(`create table mine as select 5 as n`));
  const got: unknown[] = [];
  const handle: Loaded['handle'] = async (_, ctx) => {
    got.push(await ctx.read('select n from mine where n > ?', 1));
    await ctx.read('delete from mine');
  };
  const settlement = await start({ handle }, await claimOf(store), store.work).settled;
  expect(got).toEqual([[{ n: 5 }]]);
  expect(settlement?.error).toContain('write in ctx.complete');
});
