// Reconciliation while faults last: a fresh install, restarts, clocks, alarms and gaps without an end.
import { describe, expect, test } from 'vitest';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { failure, item, page } from './replay-server.ts';
import { INTERVAL_MS, openRig, OVERLAP_MS, quiet, upTo } from './harness.ts';
import { COMPOSE } from '../alarms/alert-endpoint.ts';

describe('faults and clocks over a long time', () => {
  test('a fresh install begins at its first webhook, however long replay fails, also after a restart', async () => {
    const rig = await openRig();
    rig.server.publish(...upTo(300));
    rig.server.lieAlways(failure(503, 'UNAVAILABLE'));
    for (let minute = 0; minute < 12; minute++) {
      await rig.webhook(minute * 20 + 1);
      await rig.pass(60_000);
      if (minute === 8) rig.restart();
    }
    rig.server.lieAlways();
    await rig.pass(5 * INTERVAL_MS);
    expect(new Set(rig.asked())).toContain('1');
    expect(rig.stored()).toEqual(upTo(300).map(({ cursor }) => cursor));
  });

  test('status and the alarm show since when replay fails, also after a restart', async () => {
    const rig = await quiet();
    const { server, pass, store, clock, restart } = rig;
    const since = async () => (await store.read.status(clock.now())).reconcile.since;
    const alarms = createAlarms({
      store,
      clock,
      log: rig.log,
      alertUrl: undefined,
      compose: COMPOSE,
      freeBytes: () => 1e12,
    });
    const raised = async () => (
      await alarms.step(),
      await alarms.notify(),
      (await store.alarms.raised()).map(({ name }) => name)
    );
    server.lieAlways(failure(503, 'UNAVAILABLE'));
    await pass(100_000);
    const first = await since();
    expect(await raised()).not.toContain('reconcile_behind');
    restart();
    await pass(100_000);
    expect(await since()).toBe(first);
    expect(await raised()).toContain('reconcile_behind');
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await raised()).not.toContain('reconcile_behind');
  });

  test('after a clock was set back three hours, events that replay does not show are still counted', async () => {
    const { webhook, pass, clock, store, query } = await quiet();
    const searched = () => query<{ value: number }>(`select value from state where name = 'searched'`)[0]?.value;
    await pass(OVERLAP_MS);
    clock.step(-3 * 3_600_000);
    await webhook(50);
    const before = searched();
    await pass(20 * INTERVAL_MS);
    expect(searched()).not.toBe(before);
    expect((await store.read.counters())['unseen']).toBe(1);
  });

  test('if a person asks while the last page is on its way, another pass follows', async () => {
    const { server, now, stored, pass, asked } = await quiet({ intervalMs: 3_600_000 });
    now();
    server.lie((_, truth) => {
      server.publish(item(6));
      now();
      return truth;
    });
    await pass(10_000);
    expect(stored()).toContain('6');
    const before = asked().length;
    await pass(10 * INTERVAL_MS);
    expect(asked().length - before, 'once').toBeLessThanOrEqual(1);
  });

  test('a gap without an end is closed when its cursor is accepted again, even if no event follows', async () => {
    const { server, pass, store } = await quiet();
    server.lieAlways(page([], { reset_required: true }));
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: null, closedAt: null }]);
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', closedAt: expect.any(String) }]);
  });
});
