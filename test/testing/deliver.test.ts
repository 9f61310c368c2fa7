// The test kit, as tests of handlers use it.
import { expect, test } from 'vitest';
import { defineHandler, RetryAfter, ServiceError, Skip } from '#kit';
import { crash, createClock, deliver, fixture, recorder, serviceError } from '#kit/testing';
import { knownTypes, typeOf } from '../../src/wire/event-types.ts';

test.each(knownTypes())('the example of %s fits its type', (type) => {
  expect(typeOf(type)?.data.safeParse(fixture(type).data).error).toBeUndefined();
});

test('an event that is delivered twice runs once, and within the window the order of arrival does not matter', async () => {
  const events = [1, 2, 3, 4, 5, 6].map((n) => fixture('MessageReceived', { data: { body: `${n}` } }));
  for (const order of ['given', 'reversed', 'shuffled', [3, 1, 0, 2, 5, 4]] as const) {
    const handled: string[] = [];
    const handler = defineHandler({ on: 'MessageReceived', handle: (event) => void handled.push(event.data.body) });
    const { tasks } = await deliver(handler, events, { times: 2, order: order as 'given' });
    expect(handled.join('')).toBe('123456');
    expect(tasks).toHaveLength(6);
  }
});

test('an event is late if one with a higher cursor has already left the order window', async () => {
  const handler = defineHandler({ on: 'MessageReceived', handle: () => {} });
  const events = [fixture('MessageReceived'), fixture('MessageReceived')];
  const { tasks } = await deliver(handler, events, { order: 'reversed', apartMs: 1_000 });
  expect(tasks.map(({ late }) => late)).toEqual([false, true]);
});

test('a strict handler gets its events in cursor order', async () => {
  const seen: unknown[] = [];
  const handler = defineHandler({ on: '*', order: 'strict', handle: ({ cursor }) => void seen.push(cursor) });
  const events = [fixture('Unheard'), fixture('Unheard', { origin: 'replay' })];
  await deliver(handler, events, { order: 'reversed', apartMs: 10_000 });
  expect(seen).toEqual(events.map(({ cursor }) => cursor));
});

test('twenty attempts over eight hours take no real time', async () => {
  const clock = createClock();
  const handler = defineHandler({
    on: 'MessageReceived',
    handle() {
      throw new Error('no');
    },
  });
  const { tasks } = await deliver(handler, [fixture('MessageReceived'), fixture('MessageReceived')], { clock });
  expect(tasks).toMatchObject([
    { state: 'dead', attempts: 20, error: expect.stringMatching(/^Error: no \(test/) },
    { state: 'dead', attempts: 20 },
  ]);
  expect(clock.at).toBeGreaterThan(createClock().at + 3_600_000);
});

test('the clock jumps to the time of a task that is put off', async () => {
  const clock = createClock();
  const handler = defineHandler({
    on: 'MessageReceived',
    handle() {
      if (clock.at < Date.UTC(2026, 0, 1, 6)) throw new RetryAfter(3_600_000, 'not before six');
      throw new Skip('too late');
    },
  });
  const { tasks } = await deliver(handler, fixture('MessageReceived'), { clock });
  expect(tasks).toMatchObject([{ state: 'skipped', attempts: 1, error: 'too late' }]);
});

test('a rate is kept on the clock', async () => {
  const clock = createClock();
  const at: number[] = [];
  const handler = defineHandler({
    on: 'MessageReceived',
    lane: 'none',
    rate: { perMinute: 7 },
    handle: () => void at.push(clock.at),
  });
  await deliver(
    handler,
    [1, 2, 3].map(() => fixture('MessageReceived')),
    { clock },
  );
  expect(at.map((one) => one - (at[0] ?? 0))).toEqual([0, 8572, 17144]);
});

test('after a death before the outcome is stored, the handler runs again with the same key, and a commit by ctx.complete stays', async () => {
  const keys: string[] = [];
  const handler = defineHandler({ on: 'MessageReceived', handle: (_, ctx) => void keys.push(ctx.idempotencyKey) });
  const { tasks } = await deliver(handler, fixture('MessageReceived'), { crashAfter: 1 });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 2 }]);
  expect(keys).toEqual([keys[0], keys[0]]);

  const completing = defineHandler({
    on: 'MessageReceived',
    setup: (tx) => void tx.run('create table seen (key text)'),
    handle: (event, ctx) => ctx.complete((tx) => void tx.run('insert into seen values (?)', event.key)),
  });
  const { query } = await deliver(completing, fixture('MessageReceived'), { crashAfter: 1 });
  expect(await query('select count(*) as n from seen')).toEqual([{ n: 1 }]);
});

test('after a death while other tasks run, all of them run again, and each ends once', async () => {
  const events = Array.from({ length: 5 }, () => fixture('MessageReceived'));
  let runs = 0;
  const handler = defineHandler({ on: 'MessageReceived', lane: 'none', handle: () => void runs++ });
  const { tasks } = await deliver(handler, events, { crashAfter: 3 });
  expect(tasks.map(({ state }) => state)).toEqual(['done', 'done', 'done', 'done', 'done']);
  expect(runs).toBeGreaterThan(5);
});

test('the third death makes a dead letter, and its neighbours are done', async () => {
  const service = recorder({ GetSession: crash });
  const handler = defineHandler({
    on: 'MessageReceived',
    lane: 'none',
    async handle(event, ctx) {
      if (event.data.body === 'poison') await ctx.service.call('GetSession', {});
    },
  });
  const events = ['a', 'poison', 'b'].map((body) => fixture('MessageReceived', { data: { body } }));
  const { tasks, calls } = await deliver(handler, events, { service });
  expect(tasks.map(({ state }) => state)).toEqual(['done', 'dead', 'done']);
  expect(calls).toHaveLength(3);
});

test('the service answers as scripted, and every call is recorded', async () => {
  const service = recorder({
    ListMessages: { messages: [], next_cursor: '' },
    GetSession: (request) => ({ echo: request['session_id'] }),
    AssignConversation: serviceError('CONFLICT', 'ASSIGNMENT_CONFLICT'),
  });
  const said: unknown[] = [];
  const handler = defineHandler({
    on: 'MessageReceived',
    async handle(event, ctx) {
      said.push(await ctx.service.call('ListMessages', { conversation_id: 'c' }));
      said.push(await ctx.service.call('GetSession', { session_id: event.sessionId }));
      const refused = await ctx.service.call('AssignConversation', {}).catch((error: ServiceError) => error);
      said.push(refused instanceof ServiceError && [refused.code, refused.reason, refused.status]);
      await ctx.service.call('GetMedia', {});
    },
    retry: { attempts: 1 },
  });
  const { calls, tasks } = await deliver(handler, fixture('MessageReceived', { sessionId: null }), { service });
  expect(said).toEqual([
    { messages: [], next_cursor: '' },
    { echo: '00000000-0000-4000-8000-000000000001' },
    ['CONFLICT', 'ASSIGNMENT_CONFLICT', 409],
  ]);
  expect(tasks[0]?.error).toContain('NO_ANSWER_IN_RECORDER');
  expect(calls.map(({ name }) => name)).toEqual(['ListMessages', 'GetSession', 'AssignConversation', 'GetMedia']);
});

test('a gap is opened as the kit opens it, and closed by the completion of its handler', async () => {
  const gaps: unknown[] = [];
  const handler = defineHandler({ on: 'kit.gap', handle: (event) => void gaps.push(event.data) });
  const outcome = await deliver(handler, fixture('kit.gap', { data: { after: '5', upTo: '9' } }));
  expect(gaps).toEqual([{ gap: 1, after: '5', upTo: '9', reason: 'the cursor has expired' }]);
  expect(outcome.gaps).toMatchObject([{ closed_at: expect.any(Number) }]);
});
