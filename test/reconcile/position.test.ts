// With an API key for few phone numbers, many pages are empty, because the service applies the limit before it filters.
import { afterEach, describe, expect, test } from 'vitest';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { createReconciler } from '../../src/reconcile/reconciler.ts';
import { createBudget } from '../../src/service/budget.ts';
import { createService } from '../../src/service/service.ts';
import { createConsole } from '../../src/tools/simulator/console.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { verifyFrom } from '../../src/admin/range.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { failure, item, page, type Answer, type Lie, type Request } from './replay-server.ts';
import {
  createClock,
  createRig,
  createStoreFile,
  createTestLog,
  INTERVAL_MS,
  OVERLAP_MS,
  type Rig,
  type RigOptions,
} from './harness.ts';

let rig: Rig;
let open = false;
afterEach(async () => {
  if (open) await rig.close();
  open = false;
});

/** Shows only the cursors in `seen`. A page covers `step` cursors, up to `last`. */
function filtered(seen: number[], last: number, step = 10): Lie {
  return ({ after }: Request): Answer => {
    const from = after === undefined ? 0 : Number(after);
    const to = Math.min(last, from + step);
    const items = seen.filter((cursor) => cursor > from && cursor <= to).map((cursor) => item(cursor));
    return page(items, { next_cursor: String(to), has_more: to < last });
  };
}

async function begin(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  open = true;
  rig.server.publish(item(1));
  await rig.webhook(1);
  await rig.settle();
  return rig;
}

describe('E20', () => {
  test('E20: replay follows empty pages that promise more, up to the events after them', async () => {
    const { server, pass, stored, watermark, state } = await begin();
    server.lieAlways(filtered([95, 97], 100));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '95', '97']);
    expect(await watermark(), 'it follows items').toBe('97');
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test('E20: empty pages do not raise the watermark, and a restart begins at the watermark', async () => {
    const { server, step, watermark, restart, asked, pass, stored } = await begin();
    await pass(INTERVAL_MS);
    server.lieAlways(filtered([95], 100));
    for (const from = asked().length; asked().length < from + 5;) rig.clock.time += Math.ceil(await step());
    expect(await watermark()).toBe('1');
    const before = asked().length;
    restart();
    await pass(INTERVAL_MS);
    expect(asked()[before]).toBe('1');
    expect(stored()).toContain('95');
  });

  test('E20: after a hundred empty pages replay pauses, raises reconcile_behind, and then continues', async () => {
    const { server, pass, state, asked, stored, store, clock, log } = await begin({ callsPerMinute: 120 });
    const alarms = createAlarms({ store, clock, log, alertUrl: undefined, freeBytes: () => 1e12 });
    const raised = async () => (
      await alarms.step(),
      (await store.alarms.raised()).filter(({ cleared }) => !cleared).map(({ name }) => name)
    );
    server.lieAlways(filtered([4_995], 5_000));
    await pass(INTERVAL_MS + 55_000);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('100 empty pages') });
    const place = Number(asked().at(-1));
    expect(place).toBeGreaterThan(900);
    await pass(2 * INTERVAL_MS);
    expect(Number(asked().at(-1)), 'it goes on, and not from the beginning').toBeGreaterThan(place);
    await pass(INTERVAL_MS / 2);
    expect(await raised()).toContain('reconcile_behind');
    await pass(12 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '4995']);
    expect(await state()).toMatchObject({ state: 'idle' });
    expect(await raised()).not.toContain('reconcile_behind');
  });

  test.each([
    ['the cursor that was asked for', '1'],
    ['a lower one', '0'],
    ['none', ''],
  ])('E20: an empty page that names %s is requested twice per interval', async (_, next_cursor) => {
    const { server, pass, state } = await begin();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    server.lieAlways(page([], { has_more: true, next_cursor }));
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(22);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('does not advance') });
  });

  test.each([
    ['refused', failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID')],
    ['said to have expired', page([], { reset_required: true })],
  ])('E20: a next_cursor of an empty page that is %s is requested once more, and leaves no gap', async (_, refusal) => {
    const { server, pass, state, store, stored, watermark } = await begin();
    server.lieAlways(({ after }, truth) =>
      after === '900'
        ? refusal
        : page([], { ...(truth.body as object), events: [], has_more: true, next_cursor: '900' }),
    );
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(40);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('does not advance') });
    expect(await store.read.gaps()).toEqual([]);
    expect(await watermark()).toBe('1');
    server.lieAlways();
    server.publish(item(2));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '2']);
  });

  test('E20: empty pages for a long time raise reconcile_behind, although the service answers', async () => {
    const { server, pass, store, clock, log } = await begin();
    const alarms = createAlarms({ store, clock, log, alertUrl: undefined, freeBytes: () => 1e12 });
    server.lieAlways(page([], { has_more: true, next_cursor: '1' }));
    await pass(6 * INTERVAL_MS);
    await alarms.step();
    expect((await store.alarms.raised()).map(({ name }) => name)).toContain('reconcile_behind');
  });

  test('E20: at the end of history the watermark rises to the highest known cursor up to next_cursor', async () => {
    const { server, pass, webhook, watermark } = await begin();
    await webhook(40);
    await webhook(60);
    server.lieAlways(page([], { next_cursor: '50' }));
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('40');
    server.lieAlways(page([], { next_cursor: '9223372036854775807' }));
    await pass(2 * INTERVAL_MS);
    expect(await watermark(), 'nothing newer is known').toBe('60');
  });

  test('E20: an overlap pass follows empty pages, too', async () => {
    const { server, webhook, pass, stored } = await begin();
    await webhook(5);
    server.lieAlways(filtered([5, 95, 97], 100));
    await pass(2 * INTERVAL_MS);
    server.lieAlways(filtered([5, 90, 95, 97], 100));
    await pass(3 * INTERVAL_MS);
    expect(stored()).toContain('90');
  });

  test('E20: npx kit verify follows empty pages, too', async () => {
    const { server, store, pass, clock } = await begin();
    server.lieAlways(filtered([95], 100));
    await pass(2 * INTERVAL_MS);
    await verifyFrom(store, '1' as Cursor, clock.now());
    await pass(10 * INTERVAL_MS);
    expect(await store.state.get('verify')).toMatchObject({ state: 'done', types: [{ present: 1, missing: 0 }] });
  });

  test('E20: the search pass follows empty pages, too', async () => {
    const { server, pass, stored, store, watermark } = await begin();
    const shown = filtered([95], 100);
    server.lieAlways((request, truth) =>
      request.after === '1'
        ? page([], { reset_required: true })
        : typeof shown === 'function'
          ? shown(request, truth)
          : truth,
    );
    await pass(3 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '1', upTo: '95' }]);
    expect(stored()).toContain('95');
    expect(await watermark()).toBe('95');
  });

  test('E20: with a restricted key of the simulator, no event that the key may see is missed', async () => {
    const clock = createClock();
    const file = createStoreFile();
    const simulator = createSimulatedService({ seed: 3, clock, sessions: 4 });
    const { key, secret: apiKey } = simulator.keys.create({ name: 'k', scopes: ['events:read'], validDays: null });
    const service = createService({ baseUrl: await simulator.listen(), apiKey, paid: false });
    try {
      const type = createConsole(simulator, key);
      expect(await type('help')).toContain('key restrict ');
      expect(await type('key restrict')).toContain('key restrict ');
      const [first] = simulator.history.numbers;
      const [anchor] = simulator.happen(1, 'MessageReceived', { sessionId: first ?? null });
      simulator.happen(2_500, 'MessageReceived', { sessionId: simulator.history.numbers[1] ?? null });
      const wanted = simulator.happen(3, 'MessageReceived', { sessionId: first ?? null });
      const reconciler = createReconciler({
        ...{ store: file.store, service, clock, log: createTestLog().log, budget: createBudget(20, clock) },
        ...{
          from: anchor?.cursor ?? '',
          types: ['*'],
          intervalMs: INTERVAL_MS,
          overlapMs: OVERLAP_MS,
          onEvents: () => {},
        },
      });
      for (const end = clock.time + 5 * INTERVAL_MS; clock.time < end;)
        clock.time += Math.max(1, Math.ceil(await reconciler.step()));
      expect(file.query('select cast(cursor as text) as cursor from events order by events.cursor')).toEqual(
        wanted.map(({ cursor }) => ({ cursor })),
      );
    } finally {
      await simulator.close();
      file.remove();
    }
  });
});
