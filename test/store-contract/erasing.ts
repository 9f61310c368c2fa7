// Erasing a person's data: none of their text is left in the store, and everything else stays.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isOf } from '../../src/admin/person.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim } from '../../src/store/work.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { sums } from './harness.ts';

const NOW = Date.UTC(2026, 0, 1);
const SECRET_WORDS = 'the words that must go';

/** `everyByte`: what a store holds on disk, if a test can read it. */
// oxlint-disable-next-line max-lines-per-function -- a part of the suite
export function erasingContract(
  name: string,
  open: (path: string) => Store,
  everyByte?: (folder: string) => string,
): void {
  describe(`erasing in ${name}`, () => {
    let folder: string;
    let store: Store;

    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'kit-erase-'));
      store = open(join(folder, 'events.db'));
    });
    afterEach(() => {
      store.close();
      rmSync(folder, { recursive: true, force: true });
    });

    async function eraseAll(address: string, dry = false) {
      const aside = await store.admin.eraseAsides(isOf(address), dry);
      const { erased, next } = await store.admin.eraseEvents(isOf(address), 0, 1_000, NOW, dry);
      expect(next).toBeNull();
      return { ...erased, quarantined: aside.quarantined, conflicts: aside.conflicts };
    }

    describe('erasing a person', () => {
      let dead: Claim | undefined;

      beforeEach(async () => {
        const bodies = [
          delivery(1, '15550100', SECRET_WORDS),
          delivery(2, '15550199', 'words that stay'),
          delivery(3, '15550100', SECRET_WORDS),
          Buffer.from(`{"from":"15550100","body":"${SECRET_WORDS}"`),
        ];
        await store.ingest.accept({ readings: bodies.map(readDelivery), now: NOW });
        // The first event arrives again with other text, which is a conflict.
        await store.ingest.accept({ readings: [readDelivery(delivery(1, '15550100', `${SECRET_WORDS}!`))], now: NOW });
        const handler = (await store.work.register(['one'])).get('one') ?? 0;
        const { from, events } = await store.work.pending(10);
        const tasks = events.map(({ seq, cursor }, i) => {
          return {
            event: seq,
            handler,
            lane: i === 1 ? 'session/15550199' : 'session/15550100',
            cursor,
            releaseAt: NOW,
          };
        });
        const { claims } = await store.work.turn({
          now: NOW,
          boot: 1,
          settle: [],
          fanOut: { from, upTo: 3, tasks },
          room: 1,
          handlers: [handler],
        });
        dead = claims.find(({ event }) => event.id === 'evt_1');
        const settle = claims.map((claim) => {
          return { claim, state: 'dead' as const, error: claim === dead ? `Error: cannot read ${SECRET_WORDS}` : 'no' };
        });
        await store.work.turn({ now: NOW, boot: 1, settle, fanOut: null, room: 0, handlers: [handler] });
      });

      test('removes their messages from bodies, dead letters, quarantine, conflicts and the WAL, and counts the rows', async () => {
        if (everyByte) expect(everyByte(folder)).toContain(SECRET_WORDS);
        expect(await eraseAll('+1 555-0100')).toEqual({
          events: 2,
          skipped: 1,
          errors: 2,
          quarantined: 1,
          conflicts: 1,
        });
        if (everyByte) expect(everyByte(folder)).not.toContain(SECRET_WORDS);
        if (everyByte) expect(everyByte(folder)).not.toContain('15550100');
      });

      test('removes their address also from lanes whose tasks were moved to another handler', async () => {
        await store.work.register(['one', 'two']);
        expect(
          await store.admin.giveTo(await store.admin.matching({ state: 'dead' }, NOW), 'two', NOW),
        ).toBeGreaterThan(0);
        await eraseAll('15550100');
        if (everyByte) expect(everyByte(folder)).not.toContain('15550100');
      });

      test('keeps the identity of events, and the data of other people', async () => {
        await eraseAll('15550100');
        await store.ingest.accept({ readings: [readDelivery(delivery(3, '15550100', SECRET_WORDS))], now: NOW });
        const { events, duplicates, quarantined, tasks } = await store.read.status(NOW);
        expect({ events, duplicates, quarantined }).toEqual({ events: 3, duplicates: 2, quarantined: 0 });
        expect(tasks).toMatchObject({ ready: 1, dead: 1, skipped: 1 });
        if (everyByte) expect(everyByte(folder)).toContain('words that stay');
        expect((await store.read.event('evt_2', NOW))?.tasks[0]?.lane).toBe('session/15550199');
      });

      test('leaves no body in memory for a later attempt, and no error that quotes it', async () => {
        const before = await store.ingest.accept({
          readings: [readDelivery(delivery(9, '15550100', SECRET_WORDS))],
          now: NOW,
        });
        expect(before).toEqual([{ verdict: 'new' }]);
        const handler = (await store.work.register(['one'])).get('one') ?? 0;
        const { from, events } = await store.work.pending(10);
        const [only] = events;
        const task = { event: only?.seq ?? 0, handler, lane: 'x', cursor: only?.cursor ?? null, releaseAt: NOW };
        const turn = { now: NOW, boot: 1, settle: [], room: 9, handlers: [handler] };
        const { claims } = await store.work.turn({ ...turn, fanOut: { from, upTo: only?.seq ?? 0, tasks: [task] } });
        const claim = claims.find(({ event }) => event.id === 'evt_9');
        if (!claim) throw new Error('not claimed');
        await eraseAll('15550100');
        const settle = [{ claim, state: 'dead' as const, error: `Error: ${SECRET_WORDS}` }];
        await store.work.turn({ ...turn, settle, fanOut: null, room: 0 });
        expect((await store.read.tasks({ state: 'dead', ids: [claim.task] }, NOW)).tasks[0]?.error).toBe('erased');
        await store.admin.retry([claim.task], NOW);
        const again = (await store.work.turn({ ...turn, fanOut: null })).claims.find(
          ({ task: id }) => id === claim.task,
        );
        expect(again?.event.text).toBeNull();
      });

      test('keeps no note that a running attempt makes afterwards', async () => {
        const [claim] = await arrive(9, 'x');
        if (!claim) throw new Error('not claimed');
        expect(await store.work.noteTask(claim, 'before', '1', NOW)).toBe(true);
        await eraseAll('15550100');
        expect(await store.work.noteTask(claim, 'to', '"15550100"', NOW)).toBe(false);
        if (everyByte) expect(everyByte(folder)).not.toContain('15550100');
      });

      test('leaves one lane for the later events of the person, also for a later process', async () => {
        await arrive(20);
        await eraseAll('15550100');
        // The first turn after an erasure makes no tasks that were planned before.
        await store.work.turn({ now: NOW, boot: 1, settle: [], room: 9, handlers: [], fanOut: null });
        const [claim] = await arrive(21);
        if (!claim) throw new Error('not claimed');
        const settle = [{ claim, state: 'ready' as const, error: 'no', dueAt: NOW + 60_000, holdMs: 120_000 }];
        await store.work.turn({ now: NOW, boot: 1, settle, room: 0, handlers: [claim.handler], fanOut: null });
        expect(await arrive(22)).toEqual([]);
        store.close();
        store = open(join(folder, 'events.db'));
        expect(await arrive(23)).toEqual([]);
      });

      /** Accepts an event of the person, makes its task and claims what is due. Resolves to its claim. */
      async function arrive(n: number, lane = 'session/15550100'): Promise<Claim[]> {
        const handler = (await store.work.register(['one'])).get('one') ?? 0;
        const reading = readDelivery(delivery(n, '15550100', SECRET_WORDS));
        await store.ingest.accept({ readings: [reading], now: NOW });
        const { from, events } = await store.work.pending(10);
        const tasks = events.map(({ seq, cursor }) => ({ event: seq, handler, lane, cursor, releaseAt: NOW }));
        const fanOut = { from, upTo: events.at(-1)?.seq ?? 0, tasks };
        const { claims } = await store.work.turn({
          now: NOW,
          boot: 1,
          settle: [],
          room: 9,
          handlers: [handler],
          fanOut,
        });
        return claims.filter(({ event }) => event.id === `evt_${n}`);
      }

      test('drops tasks that were planned before the erasure, so that no task lacks its body and no lane has their address', async () => {
        await store.ingest.accept({ readings: [readDelivery(delivery(9, '15550100', SECRET_WORDS))], now: NOW });
        const handler = (await store.work.register(['one'])).get('one') ?? 0;
        const { from, events } = await store.work.pending(10);
        const tasks = events.map(({ seq: event, cursor }) => {
          return { event, handler, lane: 'session/15550100', cursor, releaseAt: NOW };
        });
        await eraseAll('15550100');
        const turn = { now: NOW, boot: 1, settle: [], room: 9, handlers: [handler] };
        const { claims } = await store.work.turn({ ...turn, fanOut: { from, upTo: from + 1, tasks } });
        expect(claims.filter(({ event }) => event.id === 'evt_9')).toEqual([]);
        if (everyByte) expect(everyByte(folder)).not.toContain('15550100');
        expect((await store.work.pending(10)).events).toMatchObject([{ id: 'evt_9', text: null }]);
      });

      test('only counts, and changes nothing, if it is a dry run', async () => {
        expect(await eraseAll('15550100', true)).toMatchObject({ events: 2, quarantined: 1, conflicts: 1 });
        if (everyByte) expect(everyByte(folder)).toContain(SECRET_WORDS);
        expect((await sums(store)).tasks.skipped).toBe(0);
      });

      test('does not match a part of another address', async () => {
        expect(await eraseAll('555010')).toMatchObject({ events: 0 });
      });
    });
  });
}

function delivery(n: number, from: string, body: string): Buffer {
  const session = '00000000-0000-4000-8000-000000000001';
  const data = { MessageReceived: { session_id: session, from, body, message_id: `m${n}` } };
  return Buffer.from(JSON.stringify({ id: `evt_${n}`, type: 'MessageReceived', cursor: String(n), data }));
}
