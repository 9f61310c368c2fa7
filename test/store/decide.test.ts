// Identity without a store: a table of cases, and random arrivals against a model, which applies decisions to a list.
import { array, assert, constantFrom, property, record } from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decide,
  nameOfCursor,
  nameOfId,
  placeOf,
  type Decision,
  type StoredIdentity as Row,
} from '../../src/store/identity.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Incoming, type Reading } from '../../src/wire/event.ts';

interface Fields {
  id: string | null;
  cursor: string | null;
  text: string;
}

const NOW = Date.UTC(2026, 5, 1);

function eventOf(reading: Reading): Incoming {
  if ('unreadable' in reading) throw new Error(reading.unreadable.reason);
  return reading.event;
}

/** Without an id, the event comes by replay. With an id, it comes by webhook. */
function arrival({ id, cursor, text }: Fields): Incoming {
  const data = { Thing: { session_id: 's', timestamp_unix_ms: NOW, text } };
  if (id === null) return eventOf(readItem('replay', cursor as Cursor, JSON.stringify(data)));
  return eventOf(readDelivery(Buffer.from(JSON.stringify({ id, type: 'Thing', cursor, data }))));
}

function rowOf(seq: number, event: Incoming, conflicting: 0 | 1 = 0): Row {
  const { id, cursor, type, origin, body } = event;
  return { seq, id, cursor, conflicting, type, origin, body, digest: null };
}

describe('an arrival, by what is known', () => {
  const a = { id: 'a', cursor: '1', text: 'x' };
  const stored = (fields: Partial<Fields>, more: Partial<Row> = {}): Row => ({
    ...rowOf(1, arrival({ ...a, ...fields })),
    ...more,
  });
  const cases: [string, Partial<Fields>, { c?: Row; i?: Row; conflicting?: Row[] }, object][] = [
    ['nothing', {}, {}, { is: 'new' }],
    ['the same event', {}, { c: stored({}), i: stored({}) }, { is: 'known' }],
    ['its id without its cursor', {}, { i: stored({ cursor: null }) }, { is: 'known', alias: 'c:1' }],
    [
      'its id with other data',
      {},
      { c: stored({ text: 'y' }), i: stored({ text: 'y' }) },
      { is: 'known', reason: 'its id was known with other data' },
    ],
    [
      'its id and its cursor apart',
      {},
      { c: stored({ id: 'b' }, { seq: 2 }), i: stored({ cursor: '2' }) },
      { is: 'known', reason: 'its id and its cursor name two different events' },
    ],
    [
      'its id as the conflicting event of its cursor',
      {},
      { c: stored({ id: 'b', text: 'y' }, { seq: 2 }), i: stored({}, { conflicting: 1 }) },
      { is: 'known' },
    ],
    ['its cursor without an id', {}, { c: stored({ id: null }) }, { is: 'known', addId: true }],
    [
      'its cursor without an id, with other data',
      {},
      { c: stored({ id: null, text: 'y' }) },
      { is: 'known', addId: true, reason: 'its cursor was known with other data' },
    ],
    ['its cursor and data with another id', {}, { c: stored({ id: 'b' }) }, { is: 'known', alias: 'i:a' }],
    [
      'its cursor with another id and other data',
      {},
      { c: stored({ id: 'b', text: 'y' }) },
      { is: 'conflicting', reason: 'its cursor was known with another id and other data' },
    ],
    [
      'the data of a conflicting event of its cursor',
      { id: null },
      { c: stored({ id: 'b', text: 'y' }), conflicting: [stored({ id: 'c' }, { seq: 3, conflicting: 1 })] },
      { is: 'known', seq: 3 },
    ],
    [
      'its cursor with other data, and it has no id',
      { id: null },
      { c: stored({ text: 'y' }) },
      { is: 'known', reason: 'its cursor was known with other data' },
    ],
    [
      'its cursor without an id, and its data as a conflicting event',
      {},
      { c: stored({ id: null, text: 'y' }), conflicting: [stored({ id: 'c' }, { seq: 3, conflicting: 1 })] },
      { is: 'known', alias: 'i:a', seq: 3 },
    ],
    [
      'its id with another type',
      {},
      { c: stored({}, { type: 'Other' }), i: stored({}, { type: 'Other' }) },
      { is: 'known', reason: 'its id was known with other data' },
    ],
    [
      'an erased event',
      {},
      { c: stored({ text: 'y' }, { body: null }), i: stored({}, { body: null }) },
      { is: 'known' },
    ],
  ];
  test.each(cases)('%s', (_, fields, { c, i, conflicting = [] }, wanted) => {
    const event = arrival({ ...a, ...fields });
    const decision = decide<Row>(event, { atCursor: c, withId: i, conflicting });
    const { of, ...rest } = { of: undefined, ...decision };
    expect('seq' in wanted ? { ...rest, seq: of?.seq } : rest).toEqual(wanted);
  });
});

test.each([
  ['no floor', { floor: null }, 'above'],
  ['a floor below it', { floor: 9n }, 'above'],
  ['a floor at it', { floor: 10n }, 'pruned'],
  ['a floor at it, and it is younger than all that was pruned', { floor: 10n, before: NOW - 1000 }, 'regressed'],
  ['a floor at it, and it claims to come from the future', { floor: 10n, before: NOW - 1000, now: NOW - 1 }, 'pruned'],
])('the place of an unknown event: %s', (_, given: { floor: bigint | null; before?: number; now?: number }, place) => {
  const { floor, before = NOW + 1000, now = NOW } = given;
  expect(placeOf(arrival({ id: 'a', cursor: '10', text: 'x' }), { floor, before }, now)).toBe(place);
});

/** A list of events that only decisions change. */
function createModel() {
  const rows: Row[] = [];
  const aliases = new Map<string, number>();
  const aliased = (name: string | null): Row | undefined =>
    rows.find(({ seq }) => name !== null && seq === aliases.get(name));

  function apply(event: Incoming): Decision<Row> {
    const at = rows.filter(({ cursor }) => event.cursor !== null && cursor === event.cursor);
    const atCursor = at.find(({ conflicting }) => !conflicting) ?? aliased(nameOfCursor(event));
    const withId = rows.find(({ id }) => id !== null && id === event.id) ?? aliased(nameOfId(event));
    const decision = decide<Row>(event, { atCursor, withId, conflicting: at.filter((row) => row.conflicting) });
    if (decision.is === 'new') rows.push(rowOf(rows.length + 1, event));
    if (decision.is === 'conflicting') rows.push(rowOf(rows.length + 1, event, 1));
    if (decision.is === 'known' && decision.addId) decision.of.id = event.id;
    if (decision.is === 'known' && decision.alias && !aliases.has(decision.alias))
      aliases.set(decision.alias, decision.of.seq);
    return decision;
  }
  return { rows, apply };
}

const arrivals = array(
  record({
    id: constantFrom('a', 'b', 'c', null),
    cursor: constantFrom('1', '2', '3', null),
    text: constantFrom('x', 'y'),
  }).filter(({ id, cursor }) => id !== null || cursor !== null),
  { minLength: 1, maxLength: 12 },
);

const twice = (values: unknown[]): boolean => new Set(values).size < values.length;

test('in any order of arrivals: one event a cursor, one event an id, and nothing is new twice', () => {
  assert(
    property(arrivals, (given) => {
      const model = createModel();
      for (const fields of given) {
        model.apply(arrival(fields));
        const { rows } = model;
        expect(twice(rows.filter((row) => row.cursor && !row.conflicting).map(({ cursor }) => cursor))).toBe(false);
        expect(twice(rows.flatMap(({ id }) => id ?? []))).toBe(false);
        const size = rows.length;
        const again = model.apply(arrival(fields));
        expect({ is: again.is, size: rows.length }).toEqual({ is: 'known', size });
      }
    }),
    { numRuns: 2_000 },
  );
});

test('in any order of arrivals: what an event brought is stored, or recorded as a contradiction', () => {
  assert(
    property(arrivals, (given) => {
      const model = createModel();
      for (const fields of given) {
        const event = arrival(fields);
        const decision = model.apply(event);
        if (decision.is === 'new' || ('reason' in decision && decision.reason)) continue;
        const text = Buffer.from(decision.of.body ?? []).toString();
        expect(text).toContain(`"text":"${fields.text}"`);
      }
    }),
    { numRuns: 2_000 },
  );
});
