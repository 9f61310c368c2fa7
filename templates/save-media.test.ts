import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { deliver, fixture, recorder, type Answers, type Recorder } from '#kit/testing';
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
const FILES = 'select message_id, file, mime, bytes from save_media';

/** A service that shows the message with `media` in the history, and answers downloads in turn. */
function scripted(media: object | undefined, downloads: (() => Response)[], answers: Answers = {}): Recorder {
  const scripts = recorder({
    ListConversations: {
      conversations: [{ id: 'c1', session_id: event.sessionId, chat_jid: '15550100' }],
      next_cursor: '',
    },
    ListMessages: { messages: [{ id: 'x' }, { id: 'y', provider_message_id: '../../m1', media }], next_cursor: '' },
    ...answers,
  });
  return {
    ...scripts,
    async fetch(url, init) {
      const answer = await scripts.fetch(url, init);
      return new URL(url).pathname === '/v1/media/a%2F1' ? (downloads.shift() ?? picture)() : answer;
    },
  };
}

const MEDIA = { media_asset_id: 'a/1' };
const picture = () => new Response(PICTURE, { headers: { 'content-type': 'image/png' } });
/** Longer than the limit, without a content-length. */
const endless = () =>
  new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024)) }));
const cutOff = () =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(PICTURE.subarray(0, 5)),
      pull: (controller) => controller.error(new Error('cut off')),
    }),
  );

test('the media of a message are saved under a name that holds no text of a stranger, and readable only by you', async () => {
  const { tasks, query } = await deliver(handler, event, { service: scripted(MEDIA, []) });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  const [file = ''] = await readdir(folder);
  expect(file).toMatch(/^[0-9a-f]{64}\.png$/);
  expect(await readdir(parent)).toEqual(['media']);
  expect(await readFile(join(folder, file))).toEqual(PICTURE);
  expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600);
  expect(await query(FILES)).toEqual([{ message_id: '../../m1', file, mime: 'image/png', bytes: PICTURE.length }]);
});

test('after a download that was cut off and a crash there is one whole file, and no rest of another', async () => {
  const service = scripted(MEDIA, [cutOff]);
  const { tasks, query } = await deliver(handler, event, { service, crashAfter: 2 });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  const files = await readdir(folder);
  expect(files).toHaveLength(1);
  expect(await readFile(join(folder, files[0] ?? ''))).toEqual(PICTURE);
  expect(await query(FILES)).toHaveLength(1);
});

test('a kind that a browser could run is saved as .bin', async () => {
  const page = () => new Response('<script>', { headers: { 'content-type': 'text/html; charset=utf-8' } });
  await deliver(handler, event, { service: scripted(MEDIA, [page]) });
  expect(await readdir(folder)).toEqual([expect.stringMatching(/^[0-9a-f]{64}\.bin$/)]);
});

test.each([
  ['says that it is', () => new Response('x', { headers: { 'content-length': String(2 ** 26) } })],
  ['does not end', endless],
])('a file that is larger than the limit, because it %s, is skipped and leaves nothing', async (_, download) => {
  const { tasks } = await deliver(handler, event, { service: scripted(MEDIA, [download]) });
  expect(tasks).toMatchObject([{ state: 'skipped', error: expect.stringContaining('more than') }]);
  expect(await readdir(folder).catch(() => [])).toEqual([]);
});

test.each([
  ['without media', event, undefined],
  ['with empty media', event, { media_asset_id: '' }],
])('a message %s is skipped without a download', async (_, without, media) => {
  const { tasks, calls } = await deliver(handler, without, { service: scripted(media, []) });
  expect(tasks).toMatchObject([{ state: 'skipped', error: 'the message has no media' }]);
  expect(calls.map(({ name }) => name)).toEqual(['ListConversations', 'ListMessages']);
});

test.each([
  ['a text', fixture('MessageReceived', { data: { message_type: 'text' } })],
  ['a message in a group', fixture('MessageReceived', { data: { message_type: 'image', is_group: true } })],
])('%s is skipped without a call', async (_, without) => {
  const { tasks, calls } = await deliver(handler, without);
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(calls).toEqual([]);
});

test('a message that the history shows late is tried again', async () => {
  let reads = 0;
  const late = { ListConversations: { conversations: [], next_cursor: '' } };
  const now = scripted(MEDIA, []);
  const before = scripted(MEDIA, [], late);
  const service = {
    ...now,
    fetch: (...call: Parameters<Recorder['fetch']>) => (++reads === 1 ? before : now).fetch(...call),
  };
  const { tasks } = await deliver(handler, event, { service });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 2 }]);
});
