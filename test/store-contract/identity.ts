// Which arrivals are the same event: at least one test for each combination of known and unknown ids and cursors.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Accepted } from '../../src/store/ingest.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import type { WorkingStore } from './harness.ts';

const NOW = Date.UTC(2026, 5, 1);
const DAY = 86_400_000;
const RETENTION = 30 * DAY;

/** `openWhole`: for the tests that prune, or look at conflicts and quarantine. */
// oxlint-disable-next-line max-lines-per-function -- a part of the suite
export function identityContract(
  name: string,
  open: (path: string) => WorkingStore,
  openStore?: (path: string) => Store,
): void {
  describe(`identity in ${name}`, () => {
    let path: string;
    let store: WorkingStore;
    const opened: WorkingStore[] = [];
    const openWhole =
      openStore &&
      ((at: string): Store => {
        const whole = openStore(at);
        opened.push(whole);
        return whole;
      });

    beforeEach(() => {
      path = join(mkdtempSync(join(tmpdir(), 'kit-identity-')), 'events.db');
      opened.push((store = open(path)));
    });

    afterEach(() => {
      for (const one of opened.splice(0)) one.close();
      rmSync(join(path, '..'), { recursive: true, force: true });
    });

    async function expectContradiction(text: string): Promise<void> {
      if (!openWhole) return;
      const [found] = await openWhole(path).read.contradictions('c:10');
      expect(String(Buffer.from(found?.body ?? []))).toContain(text);
    }

    async function accept(...readings: Reading[]): Promise<Accepted[]> {
      const all: Accepted[] = [];
      for (const reading of readings) all.push(...(await store.ingest.accept({ readings: [reading], now: NOW })));
      return all;
    }

    async function verdicts(...readings: Reading[]): Promise<string[]> {
      return (await accept(...readings)).map(({ verdict, conflict }) => (conflict ? `${verdict}, conflict` : verdict));
    }

    async function keys(): Promise<string[]> {
      return (await store.work.pending(100)).events.map(({ key }) => key);
    }

    async function keyOf(event: string): Promise<string | undefined> {
      return (await store.read.event(event, NOW))?.event.key;
    }

    async function counts() {
      const { events = 0, duplicates = 0, conflicts = 0, reread = 0, recovered = 0 } = await store.read.counters();
      return { events, duplicates, conflicts, reread, recovered };
    }

    const PRUNED_AT = NOW - RETENTION - DAY;

    /** Stores an event with this cursor and an age above RETENTION, raises the watermark above it, and prunes it. */
    async function pruneTo(floor: string): Promise<void> {
      const gone = webhook({ id: 'pruned', cursor: floor, at: PRUNED_AT });
      const watermark = String(BigInt(floor) + 1n) as Cursor;
      await store.ingest.accept({ readings: [gone], now: PRUNED_AT, watermark });
      await accept(webhook({ id: 'newest', cursor: null }));
      const { from, events } = await store.work.pending(100);
      const fanOut = { from, upTo: events.at(-1)?.seq ?? 0, tasks: [] };
      await store.work.turn({ now: NOW, boot: 1, settle: [], fanOut, room: 0, handlers: [] });
      await openWhole?.(path).keep.prune({
        now: NOW,
        before: NOW - RETENTION,
        settled: Infinity,
        after: null,
        limit: 100,
      });
      expect((await openWhole?.(path).read.status(NOW))?.floor).toBe(floor);
    }

    describe('a new event', () => {
      test('is one row, whichever origin brought it', async () => {
        expect(
          await verdicts(webhook({ id: 'a', cursor: '1' }), replay({ cursor: '2' }), replay({ cursor: '3' }, 'stream')),
        ).toEqual(['new', 'new', 'new']);
        expect(await keys()).toEqual(['c:1', 'c:2', 'c:3']);
        expect(await counts()).toEqual({ events: 3, duplicates: 0, conflicts: 0, reread: 0, recovered: 1 });
      });

      test('without a cursor is named by its id', async () => {
        expect(await verdicts(webhook({ id: 'a', cursor: null }), webhook({ id: 'b', cursor: null }))).toEqual([
          'new',
          'new',
        ]);
        expect(await keys()).toEqual(['i:a', 'i:b']);
      });

      test('and its duplicates in one batch are recognized as in batches of their own', async () => {
        const readings = [
          webhook(),
          replay(),
          webhook(),
          webhook({ id: 'b', cursor: '10' }),
          webhook({ id: 'b', cursor: '10' }),
        ];
        const accepted = await store.ingest.accept({ readings, now: NOW });
        expect(accepted.map(({ verdict }) => verdict)).toEqual([
          'new',
          'duplicate',
          'duplicate',
          'duplicate',
          'duplicate',
        ]);
        expect(await counts()).toEqual({ events: 1, duplicates: 3, conflicts: 0, reread: 1, recovered: 0 });
      });
    });

    describe('a known cursor', () => {
      test('F44: whose row has no id yet is the same event, and the id is added', async () => {
        expect(await verdicts(replay(), webhook())).toEqual(['new', 'duplicate']);
        expect(await keys()).toEqual(['c:10']);
        expect(await keyOf('a')).toBe('c:10');
        expect(await counts()).toEqual({ events: 1, duplicates: 1, conflicts: 0, reread: 0, recovered: 1 });
        expect((await store.read.event('10', NOW))?.event).toMatchObject({ id: 'a', origin: 'replay', copies: 1 });
      });

      test('F44: that a webhook brought and replay shows again is a duplicate, not counted as a delivery', async () => {
        expect(await verdicts(webhook(), replay(), replay({}, 'stream'))).toEqual(['new', 'duplicate', 'duplicate']);
        expect(await counts()).toEqual({ events: 1, duplicates: 0, conflicts: 0, reread: 2, recovered: 0 });
        expect((await store.read.event('10', NOW))?.event).toMatchObject({ id: 'a', origin: 'webhook', copies: 0 });
      });

      test('that replay showed first gets session and time from a later webhook, which overwrites neither', async () => {
        const bare = { session: null, at: null };
        await accept(replay({ ...bare, cursor: '1' }), webhook({ id: 'a', cursor: '1' }));
        await accept(replay({ cursor: '2' }), webhook({ id: 'b', cursor: '2', session: 'other', at: NOW }));
        const shown = await Promise.all(['1', '2'].map((cursor) => store.read.event(cursor, NOW)));
        expect(shown.map((one) => [one?.event.sessionId, one?.event.createdAt])).toEqual([
          ['a', NOW - DAY],
          ['a', NOW - DAY],
        ]);
      });

      test('with its known id is a duplicate, counted with the event', async () => {
        expect(await verdicts(webhook(), webhook(), webhook())).toEqual(['new', 'duplicate', 'duplicate']);
        expect((await store.read.event('a', NOW))?.event.copies).toBe(2);
        expect(await counts()).toEqual({ events: 1, duplicates: 2, conflicts: 0, reread: 0, recovered: 0 });
      });

      test('I49: with another id and equal data (two webhooks) is a duplicate, and both ids name the event', async () => {
        expect(await verdicts(webhook({ id: 'a' }), webhook({ id: 'b' }))).toEqual(['new', 'duplicate']);
        expect([await keyOf('a'), await keyOf('b')]).toEqual(['c:10', 'c:10']);
        expect(await verdicts(webhook({ id: 'b' }), webhook({ id: 'b', cursor: null }))).toEqual([
          'duplicate',
          'duplicate',
        ]);
        expect(await counts()).toEqual({ events: 1, duplicates: 3, conflicts: 0, reread: 0, recovered: 0 });
      });

      test('I50: with another id and other data is another event under its id, and a conflict', async () => {
        expect(await verdicts(webhook({ id: 'a', text: 'one' }), webhook({ id: 'b', text: 'two' }))).toEqual([
          'new',
          'new, conflict',
        ]);
        expect(await keys()).toEqual(['c:10', 'i:b']);
        expect(await counts()).toEqual({ events: 2, duplicates: 0, conflicts: 1, reread: 0, recovered: 0 });
        if (openWhole)
          expect((await openWhole(path).read.event('c:10', NOW))?.conflicts).toMatchObject([
            { id: 'b', cursor: '10', origin: 'webhook' },
          ]);
        expect([await keyOf('10'), await keyOf('a'), await keyOf('b'), await keyOf('i:b')]).toEqual([
          'c:10',
          'c:10',
          'i:b',
          'i:b',
        ]);
      });

      test('I50: of two conflicting events: each of the two is recognized when it arrives again', async () => {
        await accept(webhook({ id: 'a', text: 'one' }), webhook({ id: 'b', text: 'two' }));
        expect(await verdicts(webhook({ id: 'a', text: 'one' }), webhook({ id: 'b', text: 'two' }))).toEqual([
          'duplicate',
          'duplicate',
        ]);
        const shown = await Promise.all(['a', 'b'].map((id) => store.read.event(id, NOW)));
        expect(shown.map((one) => one?.event.copies)).toEqual([1, 1]);
        expect(await counts()).toEqual({ events: 2, duplicates: 2, conflicts: 1, reread: 0, recovered: 0 });
      });

      test('I49, I50: of two conflicting events: there are still two events if each arrives again under another id', async () => {
        await accept(webhook({ id: 'a1', text: 'one' }), webhook({ id: 'b1', text: 'two' }));
        expect(await verdicts(webhook({ id: 'a2', text: 'one' }), webhook({ id: 'b2', text: 'two' }))).toEqual([
          'duplicate',
          'duplicate',
        ]);
        expect(await keys()).toEqual(['c:10', 'i:b1']);
      });

      test('I50: of two conflicting events: an item of replay with the data of either is a duplicate, without a conflict', async () => {
        await accept(webhook({ id: 'a', text: 'one' }), webhook({ id: 'b', text: 'two' }));
        expect(await verdicts(replay({ text: 'one' }), replay({ text: 'two' }))).toEqual(['duplicate', 'duplicate']);
        expect(await counts()).toEqual({ events: 2, duplicates: 0, conflicts: 1, reread: 2, recovered: 0 });
      });

      test('with another id and another type is another event, and a conflict', async () => {
        expect(await verdicts(webhook({ id: 'a', type: 'One' }), webhook({ id: 'b', type: 'Two' }))).toEqual([
          'new',
          'new, conflict',
        ]);
        expect(await keys()).toEqual(['c:10', 'i:b']);
      });

      test('that replay shows with other data is a duplicate, and a conflict', async () => {
        expect(await verdicts(webhook({ text: 'one' }), replay({ text: 'two' }))).toEqual([
          'new',
          'duplicate, conflict',
        ]);
        expect(await keys()).toEqual(['c:10']);
        expect(await counts()).toEqual({ events: 1, duplicates: 0, conflicts: 1, reread: 1, recovered: 0 });
      });
    });

    describe('a known id', () => {
      test('I51: with another cursor is a duplicate, and both cursors name the event from then on', async () => {
        expect(await verdicts(webhook({ cursor: '10' }), webhook({ cursor: '11' }))).toEqual(['new', 'duplicate']);
        expect([await keyOf('10'), await keyOf('11')]).toEqual(['c:10', 'c:10']);
        expect(await verdicts(webhook({ cursor: '11' }), replay({ cursor: '11' }), replay({ cursor: '10' }))).toEqual(
          Array(3).fill('duplicate'),
        );
        expect(await verdicts(webhook({ id: 'b', cursor: '11' }))).toEqual(['duplicate']);
        expect(await counts()).toEqual({ events: 1, duplicates: 3, conflicts: 0, reread: 2, recovered: 0 });
      });

      test('of an event without a cursor: a cursor that comes later becomes another name of the event', async () => {
        expect(await verdicts(webhook({ cursor: null }), webhook({ cursor: '10' }), replay({ cursor: '10' }))).toEqual([
          'new',
          'duplicate',
          'duplicate',
        ]);
        expect(await keyOf('10')).toBe('i:a');
        expect(await counts()).toMatchObject({ events: 1, conflicts: 0 });
      });

      test('that arrives again without its cursor is a duplicate', async () => {
        expect(await verdicts(webhook(), webhook({ cursor: null }))).toEqual(['new', 'duplicate']);
      });

      test('I48: with other data is a duplicate: the first is kept, the other recorded as a conflict', async () => {
        expect(await verdicts(webhook({ text: 'one' }), webhook({ text: 'two' }))).toEqual([
          'new',
          'duplicate, conflict',
        ]);
        expect((await store.work.missed(0, 1, 1))[0]?.text).toContain('one');
        await expectContradiction('two');
        expect(await counts()).toEqual({ events: 1, duplicates: 1, conflicts: 1, reread: 0, recovered: 0 });
      });

      test('with other data and another cursor is a duplicate and a conflict, and the cursor names the event', async () => {
        expect(await verdicts(webhook({ text: 'one' }), webhook({ text: 'two', cursor: '11' }))).toEqual([
          'new',
          'duplicate, conflict',
        ]);
        expect(await keyOf('11')).toBe('c:10');
      });

      test('with the cursor of another event is a duplicate of its own event, and a conflict; no name changes', async () => {
        await accept(webhook({ id: 'a', cursor: '10' }), webhook({ id: 'b', cursor: '11' }));
        expect(await verdicts(webhook({ id: 'a', cursor: '11' }))).toEqual(['duplicate, conflict']);
        expect([await keyOf('a'), await keyOf('b'), await keyOf('10'), await keyOf('11')]).toEqual([
          'c:10',
          'c:11',
          'c:10',
          'c:11',
        ]);
        expect(await counts()).toEqual({ events: 2, duplicates: 1, conflicts: 1, reread: 0, recovered: 0 });
      });
    });

    describe('data are compared', () => {
      const first = '{"id":"a","type":"Thing","cursor":"10","data":{"Thing":{"x":1,"y":[1,{"z":null}]}}}';

      test.each<[string, string, string[]]>([
        [
          'other blanks and another order of keys',
          '{ "data": {"Thing":{"y":[1,{"z":null}],"x":1}}, "cursor":"10", "type":"Thing","id":"b" }',
          ['duplicate'],
        ],
        ['escapes for the same characters', first.replace('"a"', '"b"').replace('"x"', '"\\u0078"'), ['duplicate']],
        [
          'another spelling of the same number',
          first.replace('"a"', '"b"').replace('"x":1', '"x":1.0e0'),
          ['duplicate'],
        ],
        [
          'another envelope',
          first.replace('"a"', '"b"').replace('{', '{"webhook_id":"w2","created_at":"2026-01-01T00:00:00Z",'),
          ['duplicate'],
        ],
        [
          'another order of a list',
          first.replace('"a"', '"b"').replace('[1,{"z":null}]', '[{"z":null},1]'),
          ['new, conflict'],
        ],
        ['a text for a number', first.replace('"a"', '"b"').replace('"x":1', '"x":"1"'), ['new, conflict']],
        ['null for nothing', first.replace('"a"', '"b"').replace('{"z":null}', '{}'), ['new, conflict']],
        [
          '__proto__ for another key',
          first.replace('"a"', '"b"').replace('"z":null', '"__proto__":null'),
          ['new, conflict'],
        ],
      ])('parsed: %s', async (_, second, expected) => {
        await accept(readDelivery(Buffer.from(first)));
        expect(await verdicts(readDelivery(Buffer.from(second)))).toEqual(expected);
      });

      test("across origins, by the event's own fields", async () => {
        await accept(readDelivery(Buffer.from(first)));
        expect(await verdicts(readItem('replay', '10' as Cursor, '{"Thing":{"y":[1,{"z":null}], "x":1}}'))).toEqual([
          'duplicate',
        ]);
      });

      test.runIf(openWhole)('E10: by their digest, when the body was purged', async () => {
        await accept(webhook({ text: 'one' }), webhook({ id: 'z', cursor: '99' }));
        const { from, events } = await store.work.pending(10);
        await store.work.turn({
          now: NOW,
          boot: 1,
          settle: [],
          fanOut: { from, upTo: events.at(-1)?.seq ?? 0, tasks: [] },
          room: 0,
          handlers: [],
        });
        await openWhole?.(path).keep.purge(NOW + 1, null, 100);
        expect((await store.work.missed(0, 1, 1))[0]?.text).toBeNull();
        expect(await verdicts(webhook({ text: 'one' }), webhook({ id: 'b', text: 'one' }))).toEqual([
          'duplicate',
          'duplicate',
        ]);
        expect(await verdicts(webhook({ text: 'two' }), webhook({ id: 'c', text: 'two' }))).toEqual([
          'duplicate, conflict',
          'new, conflict',
        ]);
        expect(await verdicts(replay({ text: 'two' }), replay({ text: 'one' }))).toEqual(['duplicate', 'duplicate']);
      });
    });

    test('E10: a webhook with other data than replay has shown at its cursor is the same event, and a conflict', async () => {
      expect(await verdicts(replay({ text: 'one' }), webhook({ text: 'two' }), webhook({ text: 'two' }))).toEqual([
        'new',
        'duplicate, conflict',
        'duplicate, conflict',
      ]);
      expect(await counts()).toMatchObject({ events: 1, conflicts: 1 });
      await expectContradiction('two');
      expect(await keyOf('a')).toBe('c:10');
    });

    describe.runIf(openWhole)('a cursor at or below the floor', () => {
      const old = PRUNED_AT - 1;

      test('is a duplicate, and nothing is stored', async () => {
        await pruneTo('100');
        const events = (await counts()).events;
        expect(
          await verdicts(webhook({ id: 'x', cursor: '100', at: old }), webhook({ id: 'y', cursor: '99', at: old })),
        ).toEqual(['duplicate', 'duplicate']);
        expect(await verdicts(replay({ cursor: '50', at: old }))).toEqual(['duplicate']);
        expect(await counts()).toMatchObject({ events, duplicates: 2, reread: 1, conflicts: 0 });
        expect(await store.read.counters()).not.toHaveProperty('regressions');
      });

      test('is a duplicate if the time of the event is unknown', async () => {
        await pruneTo('100');
        expect(await verdicts(replay({ cursor: '50', at: null }))).toEqual(['duplicate']);
      });

      test('is stored, and counted as a regression, if the event happened after all pruned events', async () => {
        await pruneTo('100');
        expect(await verdicts(webhook({ id: 'x', cursor: '7', at: NOW - DAY }))).toEqual(['new']);
        expect(await verdicts(replay({ cursor: '8', at: NOW - RETENTION }))).toEqual(['new']);
        expect(await keyOf('7')).toBe('c:7');
        expect((await store.read.counters())['regressions']).toBe(2);
      });

      test('is counted as a regression once, and is a duplicate when it arrives again', async () => {
        await pruneTo('100');
        const event = { id: 'x', cursor: '7', at: NOW - DAY };
        expect(await verdicts(webhook(event), webhook(event), replay(event))).toEqual([
          'new',
          'duplicate',
          'duplicate',
        ]);
        expect((await store.read.counters())['regressions']).toBe(1);
      });

      test('does not concern events above the floor or without a cursor: they are new', async () => {
        await pruneTo('100');
        expect(
          await verdicts(webhook({ id: 'x', cursor: '101', at: old }), webhook({ id: 'y', cursor: null, at: old })),
        ).toEqual(['new', 'new']);
      });

      test('is compared as an integer', async () => {
        await pruneTo('9007199254740993');
        expect(
          await verdicts(
            webhook({ id: 'x', cursor: '9007199254740994', at: old }),
            webhook({ id: 'y', cursor: '9007199254740992', at: old }),
          ),
        ).toEqual(['new', 'duplicate']);
      });
    });

    describe('an unreadable delivery or item', () => {
      test('is kept once for the same bytes and cursor, and its copies are counted by origin', async () => {
        const odd = readDelivery(Buffer.from('{'));
        const at = (origin: 'replay' | 'stream', cursor: string) => readItem(origin, cursor as Cursor, '{');
        expect(await verdicts(odd, odd, odd, at('replay', '5'), at('stream', '5'), at('replay', '6'))).toEqual(
          Array(6).fill('quarantined'),
        );
        expect(await counts()).toEqual({ events: 0, duplicates: 2, conflicts: 0, reread: 1, recovered: 0 });
      });

      test('does not occupy its cursor: a later event with this cursor is new', async () => {
        const odd = readDelivery(Buffer.from('{"cursor":"10","id":5}'));
        expect(await verdicts(odd, webhook())).toEqual(['quarantined', 'new']);
        if (openWhole) expect(await openWhole(path).read.quarantine(10)).toMatchObject([{ cursor: '10' }]);
      });
    });

    describe('within one batch', () => {
      async function together(...readings: Reading[]): Promise<string[]> {
        return (await store.ingest.accept({ readings, now: NOW })).map(({ verdict }) => verdict);
      }

      test('an id is known to later readings with another cursor, and so is that cursor', async () => {
        const readings = [webhook({ cursor: '1' }), webhook({ cursor: '2' }), replay({ cursor: '2' })];
        expect(await together(...readings)).toEqual(['new', 'duplicate', 'duplicate']);
      });

      test('an id that a webhook adds to an event of replay is known at once', async () => {
        await accept(replay({ cursor: '1' }));
        expect(await together(webhook({ cursor: '1' }), webhook({ cursor: '2' }))).toEqual(['duplicate', 'duplicate']);
      });
    });

    test('a contradiction is recorded once, however often it arrives, and a different one is recorded too', async () => {
      await accept(webhook(), ...Array.from({ length: 3 }, () => webhook({ text: 'other' })));
      expect((await counts()).conflicts).toBe(1);
      await accept(webhook({ text: 'a third' }));
      expect((await counts()).conflicts).toBe(2);
    });

    test('a new id with the data of the second event of a cursor names that event', async () => {
      await accept(webhook({ id: 'a' }), webhook({ id: 'b', text: 'other' }), webhook({ id: 'c', text: 'other' }));
      expect(await keyOf('c')).toBe('i:b');
    });
  });
}

interface Fields {
  id?: string;
  cursor?: string | null;
  text?: string;
  type?: string;
  session?: string | null;
  /** When the event happened, Unix milliseconds. */
  at?: number | null;
}

function dataOf({ text = 'hello', type = 'Thing', session = 'a', at = NOW - DAY }: Fields): Record<string, unknown> {
  return { [type]: { session_id: session, timestamp_unix_ms: at, text } };
}

function webhook(fields: Fields = {}): Reading {
  const { id = 'a', cursor = '10', type = 'Thing' } = fields;
  return readDelivery(Buffer.from(JSON.stringify({ id, type, cursor, data: dataOf(fields) })));
}

function replay(fields: Fields = {}, origin: 'replay' | 'stream' = 'replay'): Reading {
  return readItem(origin, (fields.cursor ?? '10') as Cursor, JSON.stringify(dataOf(fields)));
}
