// The stream beside webhooks and replay, for its tests: a follower, a reconciler and two servers on a real store.
import { expect, onTestFinished, vi } from 'vitest';
import { createFollower, type FollowerOptions } from '../../src/reconcile/stream.ts';
import { API_KEY, item, type Item } from './replay-server.ts';
import { createRig } from './harness.ts';
import { startStreamServer } from './stream-server.ts';

export const until = (holds: () => unknown) => vi.waitUntil(holds, { timeout: 10_000, interval: 2 });

/** The follower, a reconciler and a store, with a stream server and a replay server that have the same events. */
export async function begin(more: Partial<FollowerOptions> = {}) {
  const rig = await createRig();
  const stream = await startStreamServer((cursor) => rig.saw(cursor));
  const holes: number[] = [];
  const follower = createFollower({
    store: rig.store,
    clock: rig.clock,
    log: rig.log,
    baseUrl: stream.url,
    apiKey: API_KEY,
    types: ['*'],
    onEvents: () => {},
    onHole() {
      holes.push(rig.clock.time);
      rig.now();
    },
    fresh: () => true,
    // A thousandth of the wait that the contract asks for.
    firstWaitMs: 1,
    ...more,
  });
  const stop = new AbortController();
  let following: Promise<void> | undefined;
  const history: Item[] = [];
  const happen = (cursor: number, { replay = true, type = 'MessageReceived' } = {}): void => {
    const one = item(cursor, type);
    history.push(one);
    if (replay) rig.server.publish(one);
    stream.publish(one);
  };
  let ended = false;
  const end = async (): Promise<void> => {
    if (ended) return;
    ended = true;
    stop.abort();
    await stream.close();
    await following;
    await rig.close();
  };
  onTestFinished(end);
  /** Every event up to the watermark is stored. One query reads both, events and watermark, at the same moment. */
  function assertWhole(): void {
    const [found] = rig.query<{ mark: string | null; cursors: string | null }>(`
      select (select cast(value as text) from state where name = 'watermark') as mark,
        (select string_agg(cast(cursor as text), ',') from events) as cursors`);
    const mark = found?.mark;
    if (mark == null) return;
    const stored = new Set(found?.cursors?.split(','));
    const lost = history.filter(({ cursor }) => BigInt(cursor) <= BigInt(mark) && !stored.has(cursor));
    expect(
      lost.map(({ cursor }) => cursor),
      `everything up to the watermark ${mark} is stored`,
    ).toEqual([]);
  }
  return {
    ...rig,
    stream,
    holes,
    history,
    happen,
    end,
    assertWhole,
    proves: () => follower.proves(),
    start: () => {
      following = follower.follow(stop.signal);
      return following;
    },
    /** Event 10 is delivered, and the watermark rises to it. */
    rest: async () => {
      happen(10);
      await rig.webhook(10);
      await rig.settle();
      expect(await rig.watermark()).toBe('10');
    },
    mark: () =>
      rig.query<{ value: string }>(`select cast(value as text) as value from state where name = 'watermark'`)[0]?.value,
    state: () =>
      JSON.parse(rig.query<{ value: string }>(`select value from state where name = 'stream'`)[0]?.value ?? '{}') as {
        state?: string;
        reason?: string;
      },
  };
}
