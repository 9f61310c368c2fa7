// The cost of reading a body depends only on how many values it has and how deep they are nested. The tests count work
// instead of measuring time.
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import { conversationOf, dataOfBody, readDelivery, readItem } from '../../src/wire/event.ts';
import { parseJson, parseJsonText } from '../../src/wire/json.ts';
import { isOf } from '../../src/admin/person.ts';

const MOST = 50_000;
const TOO_MANY = { ok: false, reason: `more than ${MOST} keys and items` };
const LARGE = 12 * 1024 * 1024;

afterEach(() => vi.restoreAllMocks());

const list = (n: number, item: (n: number) => string): string => Array.from({ length: n }, (_, i) => item(i)).join(',');

describe('E83: too many values', () => {
  const millions: [string, string][] = [
    ['keys', `{${list(1_000_000, (n) => `"k${n}":0`)}}`],
    ['one key again and again', `{${list(1_000_000, () => '"k":0')}}`],
    ['items', `[${list(1_000_000, () => '0')}]`],
    ['small objects', `[${list(300_000, () => '{"a":1}')}]`],
    ['empty lists', `[${list(1_000_000, () => '[]')}]`],
    ['strings with quotes in them', `[${list(300_000, () => String.raw`"\",\\"`)}]`],
    ['commas alone', ','.repeat(1_000_000)],
    ['colons alone', ':'.repeat(1_000_000)],
    ['keys without an end', `{${'"a":'.repeat(1_000_000)}`],
  ];

  test.each(millions)('are refused before anything is parsed: %s', (_, text) => {
    const parse = vi.spyOn(JSON, 'parse');
    expect(parseJsonText(text)).toEqual(TOO_MANY);
    expect(parseJson(Buffer.from(text))).toEqual(TOO_MANY);
    expect(parse).not.toHaveBeenCalled();
  });

  test.each(millions)('are read only up to the limit: %s', (_, text) => {
    const look = vi.spyOn(String.prototype, 'charCodeAt');
    parseJsonText(text);
    expect(look.mock.calls.length).toBeLessThan(20 * MOST);
  });

  test('quarantine a delivery, or a replay item with its cursor, without parsing it', () => {
    const data = `{"Thing":{"list":[${list(1_000_000, String)}]}}`;
    const parse = vi.spyOn(JSON, 'parse');
    const body = Buffer.from(`{"id":"a","type":"Thing","cursor":"5","data":${data}}`);
    expect(readDelivery(body)).toMatchObject({
      unreadable: { origin: 'webhook', cursor: null, reason: TOO_MANY.reason },
    });
    expect(readItem('replay', '5' as Cursor, data)).toMatchObject({
      unreadable: { cursor: '5', reason: TOO_MANY.reason },
    });
    expect(parse).not.toHaveBeenCalled();
  });

  test('begin right above the limit', () => {
    expect(parseJsonText(`[${list(MOST + 1, () => '0')}]`)).toMatchObject({ ok: true });
    expect(parseJsonText(`[${list(MOST + 2, () => '0')}]`)).toEqual(TOO_MANY);
    expect(parseJsonText(`{${list(MOST / 2, (n) => `"${n}":0`)}}`)).toMatchObject({ ok: true, duplicateKeys: false });
    expect(parseJsonText(`{${list(MOST / 2 + 1, (n) => `"${n}":0`)}}`)).toEqual(TOO_MANY);
  });
});

describe('E83: deep nesting is read only down to the 65th level', () => {
  test.each([
    ['lists', '['],
    ['objects', '{"a":'],
    ['both', '[{"a":'],
  ])('%s', (_, text) => {
    const parse = vi.spyOn(JSON, 'parse');
    const look = vi.spyOn(String.prototype, 'charCodeAt');
    expect(parseJsonText(text.repeat(1_000_000))).toEqual({ ok: false, reason: 'nested deeper than 64' });
    expect(look.mock.calls.length).toBeLessThan(1_000);
    expect(parse).not.toHaveBeenCalled();
  });
});

describe('E83: the cost of a long text grows only with its length', () => {
  test.each([
    ['escaped quotes without an end', '"\\'],
    ['escaped backslashes without an end', '"\\\\'],
    ['quotes', '"'],
    ['empty strings', '""'],
    ['backslashes', '\\'],
    ['brackets', '[]'],
    ['brackets and blanks', '[ ] '],
    ['blanks and brackets', ' { } '],
    ['closing brackets', ']'],
    ['digits', '1'],
    ['blanks', ' '],
  ])('%s', (_, unit) => {
    const text = unit.repeat(Math.floor(200_000 / unit.length));
    const look = vi.spyOn(String.prototype, 'charCodeAt');
    const find = vi.spyOn(String.prototype, 'indexOf');
    expect(parseJsonText(text).ok).toBe(unit === '1');
    expect(look.mock.calls.length).toBeLessThan(2 * text.length);
    expect(find.mock.calls.length).toBeLessThan(10);
  });

  const inside = (json: string): string => `{"id":"a","type":"Thing","cursor":"5","data":{"Thing":{"media":${json}}}}`;

  test.each([
    ['base64', 'QUJD'],
    [String.raw`\u0041`, String.raw`\u0041`],
    ['escaped quotes', String.raw`\"`],
    ['escaped backslashes', String.raw`\\`],
    ['commas and colons', ':,'],
    ['brackets', '[{'],
    ['umlauts', 'ä'],
  ])('an event may hold a string of twelve megabytes: %s', (_, unit) => {
    const units = Math.floor((LARGE - 200) / Buffer.byteLength(unit));
    const body = Buffer.from(inside(`"${unit.repeat(units)}"`));
    expect(readDelivery(body)).toMatchObject({ event: { id: 'a', cursor: '5', flags: [] } });
    const { media } = dataOfBody('webhook', 'Thing', body);
    expect((media as string).length).toBe((JSON.parse(`"${unit}"`) as string).length * units);
  });

  test('an event may hold a list of 10,000 phones (contract 4.2)', () => {
    const phones = JSON.stringify(Array.from({ length: 10_000 }, (_, n) => ({ phone: String(5_511_000_000 + n) })));
    expect(readDelivery(Buffer.from(inside(phones)))).toMatchObject({ event: { id: 'a', flags: [] } });
  });

  test('a conversation of megabytes is cut, and a session, a time or a cursor of megabytes is ignored or refused', () => {
    const long = '5'.repeat(LARGE / 3);
    const event = { id: 'a', type: 'Thing', cursor: '5', created_at: long, session_id: long };
    const reading = readDelivery(Buffer.from(JSON.stringify({ ...event, data: { Thing: {} } })));
    expect(reading).toMatchObject({ event: { sessionId: null, createdAt: null } });
    const cursor = readDelivery(Buffer.from(`{"id":"a","type":"Thing","cursor":${long},"data":{"Thing":{}}}`));
    expect(cursor).toMatchObject({ unreadable: { reason: 'cursor is not a decimal 64-bit integer' } });
    expect(conversationOf('MessageReceived', 'session', { from: long }).length).toBeLessThanOrEqual(500);
  });

  test('the search for a person does not split a long text into many pieces', () => {
    const split = vi.spyOn(String.prototype, 'split');
    expect(isOf('+55 11 5555-0100')(Buffer.from(inside(`"551155550100${'@'.repeat(100_000)}"`)))).toBe(true);
    const pieces = split.mock.results.map(({ value }) => (value as string[]).length);
    expect(Math.max(...pieces)).toBeLessThan(10);
  });
});
