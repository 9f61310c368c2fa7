// Tables for `readPage`: which pages it refuses, and up to where a page proves that no event is missing. How the
// reconciler uses pages is tested in reconciler.test.ts, invalid-pages.test.ts and faulty-items.test.ts.
import { describe, expect, test } from 'vitest';
import { PageError, readPage, type Page } from '../../src/reconcile/page.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { item } from './replay-server.ts';

const AFTER = '5' as Cursor;

function answer(events: unknown[], more: object = {}): unknown {
  return { events, next_cursor: '', has_more: false, reset_required: false, ...more };
}

function cursorsOf(page: Page): (string | null)[] {
  return page.readings.map((reading) => ('event' in reading ? reading.event.cursor : reading.unreadable.cursor));
}

describe('F35: a page is refused as a whole', () => {
  test.each([
    ['undefined', undefined],
    ['null', null],
    ['text', 'events'],
    ['a number', 7],
    ['an array', []],
    ['an empty object', {}],
    ['no events', { has_more: false }],
    ['events as text', answer('[]' as never)],
    ['has_more as a number', answer([], { has_more: 1 })],
    ['has_more as null', answer([], { has_more: null })],
    ['next_cursor as a number', answer([], { next_cursor: 6 })],
    ['next_cursor as an object', answer([], { next_cursor: {} })],
    ['reset_required as a number', answer([], { reset_required: 0 })],
  ])('%s', (_, response) => {
    expect(() => readPage(response, AFTER, ['*'])).toThrow(PageError);
  });

  test('the reason names the field, and quotes nothing of the page', () => {
    const secret = 'what a stranger wrote';
    expect(() => readPage(answer([], { has_more: secret }), AFTER, ['*'])).toThrow(/has_more/);
    expect(() => readPage(answer([], { has_more: secret }), AFTER, ['*'])).not.toThrow(new RegExp(secret));
  });
});

describe('F35: a difference that the contract allows is no fault', () => {
  test.each([
    ['a field that is not in the contract', answer([item(6)], { extra: [1, 2] })],
    ['next_cursor null', answer([item(6)], { next_cursor: null })],
    ['no next_cursor', { events: [item(6)], has_more: false, reset_required: false }],
    ['no reset_required', { events: [item(6)], has_more: false }],
    ['an item with more fields', answer([{ ...item(6), id: 'x' }])],
  ])('%s', (_, response) => {
    expect(readPage(response, AFTER, ['*'])).toMatchObject({ proved: '6', hasMore: false, reset: false });
  });
});

describe('up to where a page proves that no event is missing', () => {
  test.each([
    ['its highest item', [item(6), item(8), item(7)], {}, '8'],
    ['nothing new where it is empty', [], {}, '5'],
    ['nothing new where next_cursor alone is ahead (F39)', [], { next_cursor: '900' }, '5'],
    ['nothing new where all items are below after_cursor (F40)', [item(3), item(4)], {}, '5'],
    ['its highest item, though next_cursor is ahead (F38)', [item(6)], { next_cursor: '900' }, '6'],
    ['its highest item, though next_cursor is behind (F38)', [item(6)], { next_cursor: '2' }, '6'],
    ['an item that cannot be read (F41)', [item(6), { cursor: '9', json_payload: '?' }], {}, '9'],
    ['nothing of an item without a cursor (F40)', [item(6), { json_payload: '{}' }], {}, '6'],
    ['by integers, not by text', [item(9), item(10)], {}, '10'],
  ])('%s', (_, events, more, proved) => {
    expect(readPage(answer(events, more), AFTER, ['*']).proved).toBe(proved);
  });

  test('nothing, if it is empty and was read without a cursor', () => {
    expect(readPage(answer([]), null, ['*']).proved).toBeNull();
    expect(() => readPage(answer([], { has_more: true }), null, ['*'])).toThrow(PageError);
  });
});

test('F40: all readings are kept: in cursor order, those without a cursor at the end', () => {
  const page = readPage(answer([item(10), { json_payload: '{}' }, item(9), item(10), item(2)]), AFTER, ['*']);
  expect(cursorsOf(page)).toEqual(['2', '9', '10', '10', null]);
  expect(page.oddities).toEqual(expect.arrayContaining(['items out of order', 'items without a cursor']));
});

test('an orderly page has no oddities', () => {
  expect(readPage(answer([item(6), item(7)], { next_cursor: '7' }), AFTER, ['*']).oddities).toEqual([]);
});

test('F43: events of other types are counted and raise `proved`; an unreadable item is kept', () => {
  const odd = { cursor: '9', json_payload: 'broken' };
  const events = [item(6), item(7, 'CampaignFinished'), item(8, 'CampaignFinished'), odd];
  const page = readPage(answer(events), AFTER, ['MessageReceived', 'MessageSent']);
  expect(cursorsOf(page)).toEqual(['6', '9']);
  expect(page).toMatchObject({ otherTypes: 2, proved: '9' });
});
