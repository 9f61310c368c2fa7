// Pages with too many items or with junk. Their cost in memory is tested in test/system/giant.test.ts.
import { expect, onTestFinished, test } from 'vitest';
import { createPageText } from '../../src/reconcile/page-text.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { item, page } from './replay-server.ts';
import { createRig, INTERVAL_MS } from './harness.ts';

test('E85: of items without a cursor, a few per page are kept, and the same bytes once', async () => {
  const rig = await createRig({ from: '5' });
  onTestFinished(() => rig.close());
  const { server, pass, stored, store } = rig;
  server.publish(item(5), item(6));
  const same = page([item(6), ...Array.from({ length: 5_000 }, () => ({ junk: true }))]);
  server.lie(same);
  server.lieAlways(same);
  await pass(3 * INTERVAL_MS);
  expect(stored()).toEqual(['6']);
  expect((await store.read.status(0)).quarantined).toBe(1);
  let n = 0;
  const calls = server.requests.length;
  server.lieAlways(() => page([item(6), ...Array.from({ length: 5_000 }, () => ({ junk: n++ }))]));
  await pass(3 * INTERVAL_MS);
  expect((await store.read.status(0)).quarantined).toBeLessThanOrEqual(1 + 10 * (server.requests.length - calls));
});

test('E85: if a page has more items than the limit, the first are used and the others are read again', async () => {
  const rig = await createRig({ from: '5' });
  onTestFinished(() => rig.close());
  const { server, settle, stored, watermark, state } = rig;
  server.publish(...Array.from({ length: 3_001 }, (_, i) => item(5 + i)));
  server.lie(page(Array.from({ length: 3_000 }, (_, i) => item(3_005 - i))));
  await rig.step();
  expect(stored()).toHaveLength(1_000);
  expect(await watermark()).toBe('1005');
  expect((await state()).state).toBe('running');
  await settle();
  await rig.pass(INTERVAL_MS);
  expect(await watermark()).toBe('3005');
});

const text = (limit: number, body: string) =>
  createPageText({ cursor: '5' as Cursor, limit }).read(Buffer.from(body)) as { events?: unknown[] } | undefined;

test.each<[string, string, unknown]>([
  ['no items', '{"events":[ ],"has_more":false}', { events: [], has_more: false }],
  [
    'items with brackets, commas and quotes in their strings',
    '{"a":1,"events":[{"x":"],}\\"{["},{"y":[1,{"z":2}]}],"b":"]"}',
    { a: 1, b: ']', events: [{ x: '],}"{[' }, { y: [1, { z: 2 }] }] },
  ],
  ['values that are no objects', '{"events":["a",1,null,[]]}', { events: ['a', 1, null, []] }],
  ['a string that ends in backslashes', '{"events":["\\\\\\\\"],"b":"\\\\"}', { events: ['\\\\'], b: '\\' }],
  ['another list of that name within', '{"x":{"events":[1]},"events":[2]}', { x: { events: [1] }, events: [2] }],
  ['events that are no list', '{"events":{"a":[1]}}', { events: { a: [1] } }],
])('E85: reading item by item gives the same as JSON.parse: %s', (_, body, expected) => {
  expect(text(10, body)).toEqual(expected);
  expect(text(10, body)).toEqual(JSON.parse(body));
});

test.each([
  ['half of it', '{"events":[{"a":1}'],
  ['a comma too many', '{"events":[1,]}'],
  ['no JSON within', '{"events":[{"a" 1}]}'],
  ['a string without an end', '{"events":["a]}'],
  ['brackets that close before they open', '}{'],
  ['two lists', '{"events":[1],"events":[2]}'],
  ['an array', '[{"events":[]}]'],
  ['nothing', ''],
  ['text', 'events'],
])('E85: text that is no page is refused: %s', (_, body) => {
  expect(text(10, body)).toBeUndefined();
});

test.each([
  ['values', 1_000, `{"events":[${'{"a":1},'.repeat(60_000)}1]}`],
  ['values beside its items', 1, `{"events":[],"junk":[${'1,'.repeat(2_000)}1]}`],
])('E85: more %s than a page can need are refused before anything is parsed', (_, limit, body) => {
  expect(() => text(limit, body)).toThrow(/was answered with more than \d+ values/);
});

test('E85: a page of one item may be as large as a large event, other pages only smaller', () => {
  const bytesOf = (limit: number) => createPageText({ cursor: null, limit }).mostBytes;
  expect(bytesOf(1)).toBe(64 * 1024 * 1024);
  expect(bytesOf(2)).toBe(bytesOf(1_000));
  expect(bytesOf(2)).toBeLessThan(bytesOf(1));
});

test('E87: an item that is not UTF-8 is quarantined with its bytes, and the others are stored', async () => {
  const rig = await createRig({ from: '5' });
  onTestFinished(() => rig.close());
  const { server, pass, stored, query } = rig;
  server.publish(item(5), item(6), item(7), item(8));
  const [before, after] = JSON.stringify(page([item(6), item(7), item(8)]).body).split('message 7');
  const surrogate = { cursor: '9', json_payload: '{"MessageReceived":{"body":"\ud800"}}' };
  const body = Buffer.concat([Buffer.from(`${before}`), Buffer.from([0x61, 0xff, 0xfe]), Buffer.from(`${after}`)]);
  server.lieAlways({ body });
  await pass(INTERVAL_MS);
  server.lieAlways(page([surrogate]));
  await pass(INTERVAL_MS);
  expect(stored()).toEqual(['6', '8']);
  const kept = query<{ reason: string; body: Buffer }>('select reason, body from quarantine order by id');
  expect(kept.map(({ reason }) => reason)).toEqual(['the replay item is not UTF-8', 'not UTF-8']);
  expect(kept[0]?.body.includes(Buffer.from([0x61, 0xff, 0xfe]))).toBe(true);
});
