// The search for the oldest available event, against a service that no longer has the events up to some cursor.
import { expect, test } from 'vitest';
import { assert, asyncProperty, integer, uniqueArray } from 'fast-check';
import { findOldestAvailable } from '../../src/reconcile/oldest-available.ts';
import { readPage, type Page } from '../../src/reconcile/page.ts';
import { compareCursors, isBehind, type Cursor } from '../../src/wire/cursor.ts';
import { item } from './replay-server.ts';

interface World {
  stored: number[];
  /** The cursors that the service still has. It accepts the lowest of them and every higher cursor. */
  kept: number[];
  expired: number;
  hint?: number;
  /** Whether a request without a cursor is answered from the oldest event, refused, or answered from this cursor. */
  beginning?: 'shown' | 'refused' | number;
}

async function search({ stored, kept, expired, hint, beginning = 'refused' }: World) {
  const cursors = stored.map((n) => String(n) as Cursor).toSorted(compareCursors);
  const asked: (string | null)[] = [];
  const questions = findOldestAvailable({
    expired: String(expired) as Cursor,
    hint: hint === undefined ? null : (String(hint) as Cursor),
    beginning: true,
    replay: {
      cursorAbove: async (bound) => cursors.find((one) => isBehind(bound, one)) ?? null,
      cursorBelow: async (bound) => cursors.findLast((one) => bound === null || isBehind(one, bound)) ?? null,
    },
  });
  let next = await questions.next();
  for (; !next.done; next = await questions.next(answer(next.value))) asked.push(next.value);
  return { upTo: next.value.found?.upTo ?? null, asked, refused: next.value.refused };

  function answer(after: Cursor | null): Page | null {
    if (after === null && beginning === 'refused') return null;
    const from = after === null ? (typeof beginning === 'number' ? beginning : 0) : Number(after) + 1;
    const expiredThere = after !== null && Number(after) < (kept[0] ?? Infinity);
    const events = expiredThere ? [] : kept.filter((n) => n >= from).map((n) => item(n));
    return readPage({ events, has_more: false, reset_required: expiredThere, next_cursor: '' }, after, ['*']);
  }
}

test('if the service shows its oldest event without a cursor, the gap ends there after one request', async () => {
  const world = { stored: [10, 40, 50], kept: [30, 31, 40, 50], expired: 10, beginning: 'shown' } as const;
  expect(await search({ ...world, stored: [...world.stored], kept: [...world.kept] })).toMatchObject({
    upTo: '30',
    asked: [null],
  });
});

test('if a known cursor below the first shown event is accepted, the gap ends at that cursor', async () => {
  const found = await search({ stored: [40, 50], kept: [30, 40, 50, 60], expired: 10, beginning: 50 });
  expect(found).toMatchObject({ upTo: '40', asked: [null, '40'] });
});

test('expired known cursors below the first shown event cost two more requests, however many they are', async () => {
  const stored = [...Array.from({ length: 1_000 }, (_, n) => 11 + n), 3_000];
  const found = await search({ stored, kept: [2_000, 3_000], expired: 10, beginning: 'shown' });
  expect(found).toMatchObject({ upTo: '2000', asked: [null, '11', '1010'] });
});

test('a cursor that the service suggests is tried like any known cursor', async () => {
  expect(await search({ stored: [40], kept: [20, 30], expired: 10, hint: 20 })).toMatchObject({ upTo: '20' });
});

test('without a known cursor above the expired one, nothing is found', async () => {
  expect(await search({ stored: [10], kept: [30], expired: 10 })).toMatchObject({ upTo: null, asked: [null] });
});

test('if even the newest known cursor is refused, the search ends and returns that cursor', async () => {
  const found = await search({ stored: [20, 30, 40], kept: [50], expired: 10 });
  expect(found).toEqual({ upTo: null, asked: [null, '20', '40'], refused: '40' });
});

test('it finds the lowest cursor that is still accepted, with as many requests as a bisection needs', async () => {
  await assert(
    asyncProperty(
      uniqueArray(integer({ min: 11, max: 100_000 }), { minLength: 1, maxLength: 200 }),
      integer({ min: 11, max: 100_000 }),
      async (stored, first) => {
        const { upTo, asked } = await search({ stored, kept: [first], expired: 10 });
        const lowest = stored.filter((n) => n >= first).toSorted((a, b) => a - b)[0];
        expect(upTo).toBe(lowest === undefined ? null : String(lowest));
        expect(asked.length).toBeLessThanOrEqual(3 + Math.ceil(Math.log2(100_000)) + 1);
      },
    ),
  );
});
