// Events of the stream without a time: which are live, and which of unknown age.
import { describe, expect, test } from 'vitest';
import type { Ended } from '../../src/reconcile/pass.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { begin, until } from './stream-rig.ts';

describe('events of the stream without a time', () => {
  const ages = (rows: <Row>(sql: string) => Row[]) =>
    rows<{ cursor: string; live: number }>(
      `select cast(cursor as text) as cursor, live from events where origin = 'stream' order by events.cursor`,
    ).map(({ cursor, live }) => `${cursor} ${live === 1 ? 'live' : 'of unknown age'}`);

  test('E22: missed events are of unknown age, events above the watermark of an ended pass are live', async () => {
    let end: Ended | null = null;
    const { rest, start, happen, stored, query, clock } = await begin({ ended: () => end });
    await rest();
    happen(11);
    happen(12);
    void start();
    await until(() => stored().includes('12'));
    end = { at: clock.monotonic(), watermark: '12' as Cursor };
    happen(13);
    await until(() => stored().includes('13'));
    expect(ages(query)).toEqual(['11 of unknown age', '12 of unknown age', '13 live']);
  });

  test('E22: an event after a silence of 59 s is still live', async () => {
    const { rest, start, happen, stored, query, clock, stream } = await begin({
      ended: () => ({ at: clock.monotonic() - 1_000, watermark: '10' as Cursor }),
    });
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(11);
    await until(() => stored().includes('11'));
    clock.time += 59_000;
    happen(12);
    await until(() => stored().includes('12'));
    expect(ages(query)).toEqual(['11 live', '12 live']);
  });

  test('E81: the stream does not raise a lowered watermark past events that it has not brought', async () => {
    const { rest, start, happen, store, stored, mark, clock, stream } = await begin();
    await rest();
    void start();
    await until(() => stream.isOpen());
    happen(9_000);
    await until(() => mark() === '9000');
    await store.replay.lowerWatermark({ to: '10' as Cursor, why: 'evidence', now: clock.now() });
    happen(20);
    await until(() => stored().includes('20'));
    expect(mark()).toBe('10');
    await store.ingest.accept({ readings: [], now: clock.now(), watermark: '20' as Cursor, after: '10' as Cursor });
    happen(21);
    await until(() => mark() === '21');
    happen(9_000);
    happen(22);
    await until(() => stored().includes('22'));
    expect(mark()).toBe('22');
  });
});
