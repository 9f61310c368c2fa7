// The order in which the runner handles events, with a real store: shuffled, late, strict, and by lane.
import { describe, expect, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { delivery, T0, until, type Sent } from './fixture.ts';
import { noting, stage } from './stage.ts';

describe('order', () => {
  test('is perfect for events that arrive within the window, in any order', async () => {
    const { handler, handled } = noting();
    const { accept, pass, tasks, rest, clock } = await stage([handler]);
    await accept({ cursor: 5 }, { cursor: 3 });
    clock.at += 100;
    await accept({ cursor: 1 });
    clock.at += 100;
    await accept({ cursor: 4 }, { cursor: 2 });
    await until(async () => (await tasks()).ready + (await tasks()).held === 5, 'five tasks');
    expect(handled).toEqual([]);
    pass(50);
    await until(() => handled.length === 5, 'all to be handled');
    await rest();
    expect(handled).toEqual(['c:1', 'c:2', 'c:3', 'c:4', 'c:5']);
  });

  test("with 'arrival': no event waits, and an event that arrives late runs late", async () => {
    const seen: [string, boolean][] = [];
    const handle = (event: KitEvent, ctx: Context): void => void seen.push([event.key, ctx.late]);
    const { accept } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 5 });
    await until(() => seen.length === 1);
    await accept({ cursor: 3 });
    await until(() => seen.length === 2);
    expect(seen).toEqual([
      ['c:5', false],
      ['c:3', true],
    ]);
  });

  test('an event at or below the watermark does not wait for the window', async () => {
    const { handler, handled } = noting();
    const { store, runner } = await stage([handler]);
    const readings = [delivery({ cursor: 2 }), delivery({ cursor: 1 })];
    await store.ingest.accept({ readings, now: T0, watermark: '2' as Cursor });
    runner.wake();
    await until(() => handled.length === 2);
    expect(handled).toEqual(['c:1', 'c:2']);
  });

  test('a lane never runs two tasks at once, lanes do not wait for each other, and the number of attempts is limited', async () => {
    let most = 0;
    const atWork = new Set<string | null>();
    const doubled: unknown[] = [];
    const handled: string[] = [];
    const handle = async (event: KitEvent): Promise<void> => {
      if (atWork.has(event.sessionId)) doubled.push(event.key);
      atWork.add(event.sessionId);
      most = Math.max(most, atWork.size);
      await new Promise(setImmediate);
      atWork.delete(event.sessionId);
      handled.push(event.key);
    };
    const { accept } = await stage([{ order: 'arrival', handle }], { concurrency: 4 });
    await accept(...Array.from({ length: 120 }, (_, i) => ({ cursor: i + 1, session: `s${i % 12}` })));
    await until(() => handled.length === 120, 'all to be handled');
    expect(doubled).toEqual([]);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThan(20);
  });

  test('a slow handler with a backlog does not keep other handlers from running', async () => {
    const gates: (() => void)[] = [];
    const slow = {
      name: 'a-slow',
      lane: 'none',
      handle: () => new Promise<void>((resolve) => gates.push(resolve)),
    } as const;
    const quick = noting({ name: 'quick', lane: 'none', on: new Set(['Other']) });
    const { accept } = await stage(
      [
        { ...slow, order: 'arrival' },
        { ...quick.handler, order: 'arrival' },
      ],
      { concurrency: 4 },
    );
    await accept(...Array.from({ length: 20 }, (_, i) => ({ cursor: i + 1 })));
    await until(() => gates.length === 4, 'all places to be taken');
    await accept({ cursor: 100, type: 'Other' });
    for (let freed = 0; freed < 10 && quick.handled.length === 0; freed++) {
      gates.shift()?.();
      await until(() => gates.length === 4 || quick.handled.length > 0, 'the place to be taken');
    }
    expect(quick.handled).toEqual(['c:100']);
    for (const gate of gates) gate();
  });

  test('held tasks are counted until their window is over', async () => {
    const { accept, runner, pass } = await stage([noting().handler]);
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => runner.state().held === 2, 'two to be held');
    pass(250);
    expect(runner.state().held).toBe(0);
  });

  test('strict: a shuffled burst runs in cursor order, up to the watermark', async () => {
    const { handler, handled } = noting({ order: 'strict' });
    const { accept, runner, store, lines } = await stage([handler]);
    for (const cursor of [5, 2, 4, 1]) await accept({ cursor });
    await until(() => runner.state().held === 4, 'four to be held');
    const prove = async (watermark: number, sent: Sent[] = []): Promise<void> => {
      await store.ingest.accept({ readings: sent.map(delivery), now: T0, watermark: String(watermark) as Cursor });
      runner.wake();
    };
    await prove(2);
    await until(() => handled.length === 2);
    await prove(5, [{ cursor: 3 }]);
    await until(() => handled.length === 5);
    expect(handled).toEqual(['c:1', 'c:2', 'c:3', 'c:4', 'c:5']);
    expect(runner.state().held).toBe(0);
    expect(lines.filter((line) => line['late'] === true || 'unproven' in line)).toEqual([]);
  });

  test('strict: an event that replay does not show runs unproven, and its log line has `unproven`', async () => {
    const seen: [string, boolean][] = [];
    const handle = (event: KitEvent, ctx: Context): void => void seen.push([event.key, ctx.unproven]);
    const { accept, runner, store, lines } = await stage([{ order: 'strict', handle }]);
    await accept({ cursor: 1 });
    await until(() => runner.state().held === 1, 'one to be held');
    await store.state.note({}, { searched: 1 });
    runner.wake();
    await until(() => lines.some(({ verdict }) => verdict === 'done'));
    expect(seen).toEqual([['c:1', true]]);
    expect(lines.filter(({ verdict }) => verdict === 'done')).toMatchObject([{ key: 'c:1', unproven: true }]);
  });

  test('strict: only events above the watermark make replay read on at once', async () => {
    let asked = 0;
    const { handler, handled } = noting({ order: 'strict' });
    const { accept, store, runner } = await stage([handler], { onUnproven: () => asked++ });
    await store.ingest.accept({ readings: [delivery({ cursor: 1 })], now: T0, watermark: '1' as Cursor });
    await accept({ cursor: null });
    await until(() => handled.length === 2);
    expect(asked).toBe(0);
    await accept({ cursor: 3 }, { cursor: 2 });
    await until(() => runner.state().held === 2, 'two to be held');
    expect(asked).toBe(1);
  });
});
