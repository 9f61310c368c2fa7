// Random batches in which events share ids, cursors and data, from any origin, with watermarks and gaps.
import * as fc from 'fast-check';
import type { Batch } from '../../src/store/ingest.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import { T0 } from '../receive/harness.ts';

/** The events of a group share nothing with those of another group. */
const GROUPS = 120;
const HIGHEST = 2n ** 63n - 1n;

/** Any code point, and often one that a database may treat in its own way. */
const character = fc.oneof(
  fc.constantFrom('\0', '\ud800', '\udc00', '\ufffd', 'é', 'e\u0301', 'Z', 'a', '\u{1f600}', '\uffff', ' ', '\\', "'"),
  fc.integer({ min: 0, max: 0x10ffff }).map((code) => String.fromCodePoint(code)),
);
const text = fc.string({ unit: character, maxLength: 12 });
/** Long, and of characters that do not compress: an index of PostgreSQL takes no row above 2,704 bytes. */
const long = fc.integer({ min: 1 }).map((seed) => noise(seed, 200));

const arrival = fc.record({
  origin: fc.constantFrom('webhook' as const, 'webhook' as const, 'replay' as const, 'stream' as const),
  id: fc.nat(4),
  cursor: fc.option(fc.nat(4)),
  data: fc.nat(2),
  type: fc.constantFrom('Thing', 'Thing', 'webhook.ping', 'kit.thing', 'MessageReceived', 'x'.repeat(200)),
  session: fc.oneof(text, long, fc.constantFrom('a', 'b', '')),
  time: fc.option(fc.constantFrom(0, T0 - 1_000, T0 + 1_000, 8.64e15, 1e200)),
});
export type Arrival = typeof arrival extends fc.Arbitrary<infer Value> ? Value : never;

const batch = fc.record({
  arrivals: fc.array(arrival, { minLength: 1, maxLength: 6 }),
  /** The last arrival comes twice in the batch. */
  twice: fc.boolean(),
  after: fc.integer({ min: 0, max: 90_000 }),
  fresh: fc.boolean(),
  watermark: fc.option(fc.nat(4), { freq: 4 }),
  gap: fc.option(fc.nat(4), { freq: 12 }),
});

/** The same seed gives the same batches. */
export function batchesOf(seed: number, count: number): Batch[] {
  let now = T0;
  return fc.sample(batch, { seed, numRuns: count }).map(({ arrivals, twice, after, fresh, watermark, gap }, n) => {
    const group = n % GROUPS;
    now += after;
    const readings = [...arrivals, ...(twice ? arrivals.slice(-1) : [])].map((one) => readingOf(one, group));
    return {
      readings,
      now,
      fresh,
      ...(watermark !== null && { watermark: cursorOf(group, watermark) }),
      ...(gap !== null && {
        gap: {
          after: cursorOf(group, gap),
          upTo: gap % 2 ? null : cursorOf(group, gap + 1),
          reason: 'expired\0\ud800',
        },
      }),
    };
  });
}

/** Those of the last group are the highest that there are. */
function cursorOf(group: number, n: number): Cursor {
  return String(
    group === GROUPS - 1 ? HIGHEST - 4n + BigInt(n % 5) : 10_000n + BigInt(group) * 100n + BigInt(n),
  ) as Cursor;
}

function readingOf({ origin, id, cursor, data, type, session, time }: Arrival, group: number): Reading {
  const fields = { session_id: session, timestamp_unix_ms: time, text: `${data}\0\ud800\u{1f600}` };
  if (origin !== 'webhook') return readItem(origin, cursorOf(group, cursor ?? 0), JSON.stringify({ [type]: fields }));
  const envelope = {
    id: `${group}-${id}`,
    type,
    cursor: cursor === null ? null : cursorOf(group, cursor),
    created_at: '2026-01-01T11:59:58.000Z',
    data: { [type]: fields },
  };
  return readDelivery(Buffer.from(JSON.stringify(envelope)));
}

/** Random text of this many characters, which does not compress. They are `count` characters from `first` on. */
export function noise(seed: number, length: number, first = 0x4e00, count = 20_000): string {
  let state = seed >>> 0;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return String.fromCharCode(first + ((state >>> 16) % count));
  }).join('');
}
