import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { defineHandler, RetryAfter, ServiceError, Skip, type Context } from '#kit';
import { crash, createClock, deliver, fixture, recorder, serviceError } from '#kit/testing';

test('a message is handled', async () => {
  const handled: string[] = [];
  const handler = defineHandler({ on: 'MessageReceived', handle: (event) => void handled.push(event.data.body) });
  const { tasks } = await deliver(handler, fixture('MessageReceived', { data: { body: 'hi' } }));
  expect(handled).toEqual(['hi']);
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1, late: false }]);
});

test('the steps of a setup run in order, once, before the first event', async () => {
  const handler = defineHandler({
    on: 'MessageReceived',
    setup: ['create table mine (n bigint)', async (tx) => void (await tx.run('insert into mine values (1)'))],
    handle: (_, ctx) => ctx.complete(async (tx) => void (await tx.run('update mine set n = n + 1'))),
  });
  const { query } = await deliver(handler, [fixture('MessageReceived'), fixture('MessageReceived')], { crashAfter: 1 });
  expect(await query('select n from mine')).toEqual([{ n: 3 }]);
});

test('a step of a setup that fails is named', async () => {
  const setup = ['create table mine (n bigint)', 'alter tabel mine'];
  const handler = defineHandler({ on: 'MessageReceived', setup, handle: () => {} });
  await expect(deliver(handler, fixture('MessageReceived'), { name: 'mine' })).rejects.toThrow(
    /^setup of handler mine failed in step 2: .*tabel/,
  );
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

test('a strict handler runs in order, and each task runs with ctx.unproven false', async () => {
  const unproven: boolean[] = [];
  const handler = defineHandler({ on: '*', order: 'strict', handle: (_, ctx) => void unproven.push(ctx.unproven) });
  await deliver(handler, [fixture('MessageReceived'), fixture('Unheard')], { order: 'reversed' });
  expect(unproven).toEqual([false, false]);
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

test('after a crash before the outcome is stored, the handler runs again with the same key, and a commit by ctx.complete stays', async () => {
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

test('after a crash while other tasks run, all of them run again, and each ends once', async () => {
  const events = Array.from({ length: 5 }, () => fixture('MessageReceived'));
  let runs = 0;
  const handler = defineHandler({ on: 'MessageReceived', lane: 'none', handle: () => void runs++ });
  const { tasks } = await deliver(handler, events, { crashAfter: 3 });
  expect(tasks.map(({ state }) => state)).toEqual(['done', 'done', 'done', 'done', 'done']);
  expect(runs).toBeGreaterThan(5);
});

test('a mistake that costs no task is printed and logged: a lane that is no string, ctx.complete called twice', async () => {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const handler = defineHandler({
    on: 'MessageReceived',
    lane: () => undefined as unknown as string,
    async handle(_, ctx) {
      await ctx.complete(() => {});
      await ctx.complete(() => {});
    },
  });
  const { tasks, log } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'done' }]);
  const lane = 'lane function returned undefined, not a string; using the session as lane';
  const twice = 'failed after ctx.complete; the task stays done';
  expect(log.map(({ msg }) => msg)).toEqual(expect.arrayContaining([lane, twice]));
  const lines = printed.mock.calls.join('\n');
  expect(lines).toContain(`deliver: ${lane}`);
  expect(lines).toContain(`deliver: ${twice} (Error: ctx.complete has ended this task: call it once, and ctx.note`);
});

test('the service answers as scripted, by objects, functions and errors, and every call is recorded', async () => {
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
    },
  });
  const { calls } = await deliver(handler, fixture('MessageReceived', { sessionId: null }), { service });
  expect(said).toEqual([
    { messages: [], next_cursor: '' },
    { echo: '00000000-0000-4000-8000-000000000001' },
    ['CONFLICT', 'ASSIGNMENT_CONFLICT', 409],
  ]);
  expect(calls.map(({ name }) => name)).toEqual(['ListMessages', 'GetSession', 'AssignConversation']);
});

test('a call that is not scripted fails with NO_ANSWER_IN_RECORDER', async () => {
  const handler = defineHandler({
    on: 'MessageReceived',
    retry: { attempts: 1 },
    handle: async (_, ctx) => void (await ctx.service.call('GetSession', {})),
  });
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks[0]?.error).toContain('NO_ANSWER_IN_RECORDER');
});

test('after a crash during a call, the service has the call, and the handler runs again', async () => {
  let calls = 0;
  const service = recorder({ GetSession: () => (++calls === 1 ? crash : {}) });
  const handler = defineHandler({
    on: 'MessageReceived',
    handle: async (_, ctx) => void (await ctx.service.call('GetSession', {})),
  });
  const { tasks } = await deliver(handler, fixture('MessageReceived'), { service });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 2 }]);
  expect(calls).toBe(2);
});

test("a gap is raised as the kit raises it, and closed by the handler's completion", async () => {
  const gaps: unknown[] = [];
  const handler = defineHandler({ on: 'kit.gap', handle: (event) => void gaps.push(event.data) });
  const outcome = await deliver(handler, fixture('kit.gap', { data: { after: '5', upTo: '9' } }));
  expect(gaps).toEqual([{ gap: 1, after: '5', upTo: '9', reason: 'the cursor has expired' }]);
  expect(outcome.gaps).toMatchObject([{ closedBy: 'handler' }]);
});

describe('a handler that hangs ends at its timeoutMs on the clock of the test, and takes no real seconds', () => {
  const hanging = {
    'for a promise that nobody settles': () => new Promise<void>(() => {}),
    'for an answer of the service': async (_: unknown, ctx: Context) => void (await ctx.service.call('GetSession', {})),
  };

  test.each(Object.entries(hanging))('%s', async (_, handle) => {
    const clock = createClock();
    const began = clock.at;
    const service = recorder({ GetSession: () => new Promise<never>(() => {}) });
    const handler = defineHandler({ on: 'MessageReceived', timeoutMs: 60_000, retry: { attempts: 3 }, handle });
    const { tasks } = await deliver(handler, fixture('MessageReceived'), { clock, service });
    expect(tasks).toMatchObject([{ state: 'dead', attempts: 3, error: 'Timeout: no result within 60000 ms' }]);
    expect(clock.at).toBeGreaterThanOrEqual(began + 3 * 60_000);
  });

  test('after a crash as well, when the task runs alone', async () => {
    let runs = 0;
    const handler = defineHandler({
      on: 'MessageReceived',
      retry: { attempts: 2 },
      handle: () => (++runs === 1 ? undefined : new Promise<void>(() => {})),
    });
    const { tasks } = await deliver(handler, fixture('MessageReceived'), { crashAfter: 1 });
    expect(tasks).toMatchObject([{ state: 'dead', attempts: 2 }]);
  });

  test('while it hangs, tasks of other lanes run at their times', async () => {
    const order: string[] = [];
    const handler = defineHandler({
      on: 'MessageReceived',
      lane: 'none',
      timeoutMs: 60_000,
      retry: { attempts: 2, firstMs: 1_000, maxMs: 1_000 },
      async handle(event, ctx) {
        if (event.data.body === 'hangs') await new Promise<void>(() => {}).finally(() => {});
        order.push(`${event.data.body} ${ctx.attempt}`);
        if (ctx.attempt === 1) throw new Error('again');
      },
    });
    const events = ['hangs', 'fails'].map((body) => fixture('MessageReceived', { data: { body } }));
    const { tasks } = await deliver(handler, events);
    expect(order).toEqual(['fails 1', 'fails 2']);
    expect(tasks.map(({ state }) => state)).toEqual(['dead', 'done']);
  });

  test('a handler that waits for a real timer or a file goes on', async () => {
    const handler = defineHandler({
      on: 'MessageReceived',
      timeoutMs: 60_000,
      async handle() {
        await sleep(200);
        await readFile('package.json');
      },
    });
    const clock = createClock();
    const began = clock.at;
    const { tasks } = await deliver(handler, fixture('MessageReceived'), { clock });
    expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
    expect(clock.at).toBeLessThan(began + 60_000);
  });
});
