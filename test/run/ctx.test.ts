// What a handler is given: its event, and ctx with service, notes and reads.
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test, vi } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import type { Scope } from '../../src/run/stray-errors.ts';
import { startAttempt } from '../../src/run/attempt.ts';
import type { ServiceFor } from '../../src/run/runner-options.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { Claim } from '../../src/store/work.ts';
import { claimed, never, start } from './attempts.ts';
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
} from './fixture.ts';

const SERVICE = { call: async () => {} };
/** `ctx.service`, typed so that these tests also compile in a kit without the module `service`. */
const serviceOf = (ctx: object): typeof SERVICE => (ctx as { service: typeof SERVICE }).service;

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
