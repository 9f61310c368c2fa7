// A rerun of past events, with a real store: each event once more, beside new events.
import { describe, expect, test } from 'vitest';
import type { KitEvent } from '../../src/kit.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { T0, until } from './fixture.ts';
import { noting, stage } from './stage.ts';

describe('a rerun', () => {
  test('gives its handler again each event that it wants, beside new events', async () => {
    const { handler, handled } = noting({ on: new Set(['Thing']) });
    const { store, accept, pass, rest, clock } = await stage([handler, { name: 'other' }]);
    await accept(...Array.from({ length: 600 }, (_, n) => ({ cursor: 600 - n, session: `s-${n % 7}` })));
    await accept({ cursor: 700, type: 'Else' });
    pass(250);
    await until(() => handled.length === 600);
    await rest();
    handled.length = 0;
    const range = await store.admin.range(T0, null);
    const asked = { handler: 'one', type: null, from: 'then', to: null, events: 601, range };
    await store.admin.askRerun(asked, clock.now());
    await accept({ cursor: 800, session: 'live' });
    pass(250);
    await until(() => handled.length === 601);
    await rest();
    expect(new Set(handled).size).toBe(601);
    const [rerun] = await store.admin.reruns(1);
    expect(rerun).toMatchObject({ state: 'ended', seen: 601, made: 600, untried: 0 });
    const { tasks } = await store.read.tasks({ handler: 'one', limit: 1_000 }, clock.now());
    expect(tasks.every(({ late, state }) => state === 'done' && !late)).toBe(true);
  });

  test('takes a quarter of the concurrent attempts, so that new events of the handler need not wait', async () => {
    const gate = Promise.withResolvers<void>();
    const begun: string[] = [];
    let waits = false;
    const handle = (event: KitEvent): Promise<void> | void => {
      begun.push(event.key);
      return waits ? gate.promise : undefined;
    };
    const { store, accept, clock, runner } = await stage([{ lane: 'none', order: 'arrival', handle }], {
      concurrency: 8,
    });
    await accept(...Array.from({ length: 10 }, (_, n) => ({ cursor: n + 1 })));
    await until(async () => begun.length === 10 && (await store.read.status(clock.now())).tasks.done === 10);
    waits = true;
    begun.length = 0;
    const asked = { handler: 'one', type: null, from: '1', to: null, events: 10 };
    await store.admin.askRerun({ ...asked, range: await store.admin.range('1' as Cursor, null) }, clock.now());
    runner.wake();
    await until(() => begun.length === 2);
    await accept({ cursor: 11 });
    await until(() => begun.includes('c:11'));
    expect(begun).toHaveLength(3);
    gate.resolve();
    await until(() => begun.length === 11);
  });
});
