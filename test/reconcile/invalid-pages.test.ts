// Reconciliation when an answer is no valid page, or a page is wrong about where it ends.
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { failure, item, page, type Answer } from './replay-server.ts';
import { INTERVAL_MS, itemsOf, openRig, quiet, upTo } from './harness.ts';

describe('an answer that is no valid page', () => {
  const six = item(6);
  const fine = { events: [six], next_cursor: '6', has_more: false, reset_required: false };

  test.each([
    ['404', failure(404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND')],
    ['413', failure(413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE')],
    ['a redirect', { status: 302, headers: { location: '/v1/rpc/Elsewhere' }, body: '' }],
    ['a redirect that keeps the method', { status: 307, headers: { location: '/v1/rpc/Elsewhere' }, body: '' }],
    ['HTML with status 200', { body: '<html>please log in</html>' }],
    ['nothing at all', { body: '' }],
    ['a bare array', { body: [] }],
    ['an array of items', { body: [six] }],
    ['half of the JSON', { body: JSON.stringify(fine).slice(0, -20) }],
    ['null', { body: 'null' }],
    ['no events', { body: { ...fine, events: undefined } }],
    ['events that are an object', { body: { ...fine, events: { 0: six } } }],
    ['has_more as text', { body: { ...fine, has_more: 'false' } }],
    ['no has_more', { body: { ...fine, has_more: undefined } }],
    ['next_cursor as a number', { body: { ...fine, next_cursor: 6 } }],
    ['reset_required as text', { body: { ...fine, reset_required: 'no' } }],
    ['an error envelope with status 200', { body: failure(500, 'INTERNAL').body }],
    ['a body that gzip spoils', { headers: { 'content-encoding': 'gzip' }, body: gzipSync('{}').subarray(0, 12) }],
  ] satisfies [string, Answer][])('F35: %s is refused as a whole and requested again', async (_, answer) => {
    const { server, step, pass, state, stored, watermark } = await quiet();
    server.publish(six);
    server.lie(answer);
    await step();
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.any(String) });
    expect(stored()).not.toContain('6');
    expect(await watermark()).toBe('5');
    await pass(5_000);
    expect(
      server.requests.every(({ operation }) => operation === 'ReplayEvents'),
      'no redirect followed',
    ).toBe(true);
    expect(stored()).toContain('6');
    expect(await watermark()).toBe('6');
  });

  test('F35: an empty first page that promises more is refused', async () => {
    const rig = await openRig({ from: 'start' });
    rig.server.lieAlways(page([], { has_more: true }));
    await rig.pass(10 * INTERVAL_MS);
    expect(await rig.state()).toMatchObject({ state: 'backing-off' });
    expect(rig.server.requests.length).toBeLessThan(40);
  });
});

describe('a page that is wrong about where it ends', () => {
  /** Shows the same two events for every request, with the promise of more. */
  const standing = page([item(4), item(5)], { has_more: true });

  test.each([
    ['F37: an empty page that says there is more', page([], { has_more: true, next_cursor: '5' })],
    ['F37: the same items again and again', standing],
  ])('%s: the page is requested once more, then only after the next interval', async (_, answer) => {
    const { server, pass, state, watermark, text } = await quiet();
    server.lieAlways(answer);
    const before = server.requests.length;
    await pass(10_000);
    expect(server.requests.length - before).toBe(2);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('does not advance') });
    expect(text()).toContain('shows nothing');
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(22);
    expect(await watermark()).toBe('5');
  });

  test('F37: replay continues when the service shows new events again', async () => {
    const { server, pass, stored, state } = await quiet();
    server.lie(standing, standing);
    server.publish(item(6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('6');
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test.each([
    ['back', '2'],
    ['far beyond its last item', '900'],
    ['at no cursor at all', 'abc'],
    ['nowhere', ''],
    ['past 64 bits', '9'.repeat(30)],
  ])('F38: if next_cursor points %s, replay continues after the last item', async (_, next_cursor) => {
    const { server, settle, stored, watermark, asked } = await quiet();
    server.publish(...upTo(9, 6));
    server.lie((_request, truth) => page(itemsOf(truth).slice(0, 2), { has_more: true, next_cursor }));
    await settle();
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    expect(await watermark()).toBe('9');
    expect(asked()).toContain('7');
  });

  test('F38: at the end of history, a far too high next_cursor does not raise the watermark', async () => {
    const { server, settle, pass, stored, watermark } = await quiet();
    server.publish(item(6));
    server.lie(page([item(6)], { next_cursor: '900' }), page([], { next_cursor: '900' }));
    await settle();
    expect(await watermark()).toBe('6');
    server.publish(item(7));
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toContain('7');
  });
});
