import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { deliver, fixture, recorder } from '#kit/testing';
import handler from './save-media.ts';

let parent: string;
let folder: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'save-media-'));
  folder = join(parent, 'media');
  vi.stubEnv('MEDIA_DIR', folder);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(parent, { recursive: true });
});

const PICTURE = Buffer.from('the bytes of a picture');
const event = fixture('MessageReceived', { data: { message_type: 'image', message_id: '../../m1' } });
const MEDIA = { media_asset_id: 'a/1' };
const conversations = [{ id: 'c1', session_id: event.sessionId, chat_jid: event.data.from }];

async function* cutOff() {
  yield PICTURE.subarray(0, 5);
  throw new Error('cut off');
}
async function* endless() {
  for (;;) yield new Uint8Array(1024 * 1024);
}

/** A service that shows the message with `media` in the history. `downloads`: the next ones. */
const scripted = (media: object | undefined, downloads: (typeof endless)[] = [], mime = 'image/png') =>
  recorder({
    ListConversations: { conversations },
    ListMessages: { messages: [{ id: 'x' }, { id: 'y', provider_message_id: '../../m1', media }] },
    'GET /media/a%2F1': () => new Response(downloads.shift()?.() ?? PICTURE, { headers: { 'content-type': mime } }),
  });

test('media are saved under a name that holds no text of a stranger, and readable only by you', async () => {
  const { tasks, query } = await deliver(handler, event, { service: scripted(MEDIA) });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  const [file = ''] = await readdir(folder);
  expect(file).toMatch(/^[0-9a-f]{64}\.png$/);
  expect(await readdir(parent)).toEqual(['media']);
  expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600);
  const rows = await query('select message_id, file, mime, bytes from save_media');
  expect(rows).toEqual([{ message_id: '../../m1', file, mime: 'image/png', bytes: PICTURE.length }]);
});

test('after a download that was cut off and a crash there is one whole file, which no browser runs', async () => {
  const service = scripted(MEDIA, [cutOff], 'text/html; charset=utf-8');
  const { tasks, query } = await deliver(handler, event, { service, crashAfter: 2 });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  const [file = '', ...more] = await readdir(folder);
  expect([more, file]).toEqual([[], expect.stringMatching(/\.bin$/)]);
  expect(await readFile(join(folder, file))).toEqual(PICTURE);
  expect(await query('select key from save_media')).toHaveLength(1);
});

test('a file that is larger than the limit is skipped and leaves nothing', async () => {
  const { tasks } = await deliver(handler, event, { service: scripted(MEDIA, [endless]) });
  expect(tasks).toMatchObject([{ state: 'skipped', error: expect.stringContaining('more than') }]);
  expect(await readdir(folder)).toEqual([]);
});

const group = fixture('MessageReceived', { data: { message_type: 'image', is_group: true } });
test.each([
  ['without media', event, undefined],
  ['with empty media', event, { media_asset_id: '' }],
  ['of type text', fixture('MessageReceived'), MEDIA],
  ['in a group', group, MEDIA],
])('a message %s is skipped without a download', async (_, without, media) => {
  const { tasks, calls } = await deliver(handler, without, { service: scripted(media) });
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(calls.map(({ name }) => name)).not.toContain('GET /media/a%2F1');
});
