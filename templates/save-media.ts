// Saves the media of each message as a file. The table `save_media` tells which file belongs to a message.
// Lane: none, because files need no order. Freshness: never too old, because a file is as useful later.
// Needs: an API key with product:inbox. MEDIA_DIR is the folder, by default data/media.
// Assumed: the history shows the message under its `message_id`, as `id` or `provider_message_id`, and its
// `media.media_asset_id` (contract 2.8) is the id of GET /media/{id} (4.3). The writer's `from` is the conversation's
// `chat_jid` or `peer_phone` (2.9), except in groups, which are skipped. A message of type `text` has no media.
// A file's name is a hash of the event's key: a retry writes the same file, and no text of a stranger is in a path. The
// file is written beside its place, synced and renamed. After a crash, you may delete files that end in .part.
import { hash, randomUUID } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { defineHandler, Skip, type Context, type KitEvent } from '#kit';

const MOST_BYTES = 32 * 1024 * 1024;
/** Other kinds end in .bin, so that no file runs or opens in a browser because of its name. */
const ENDINGS = new Map(Object.entries({ 'image/jpeg': 'jpg', 'image/png': 'png', 'audio/ogg': 'ogg' }));

export default defineHandler({
  on: 'MessageReceived',
  lane: 'none',
  order: 'arrival',
  // Half of the downloads that the account may make (contract 8).
  rate: { perMinute: 30 },
  timeoutMs: 360_000,
  setup: [
    `create table save_media (
      key text primary key, message_id text not null, file text not null, mime text, bytes bigint not null)`,
  ],
  async handle(event, ctx) {
    const { is_group, message_type, message_id } = event.data;
    if (is_group || message_type === 'text') throw new Skip('the message is a text, or from a group');
    const id = await mediaOf(event, ctx);
    if (typeof id !== 'string' || id === '') throw new Skip('the message has no media');
    const { body, headers } = await ctx.service.media(id);
    if (!body) throw new Skip('the file is empty');
    const kind = (headers.get('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
    const file = `${hash('sha256', event.key)}.${ENDINGS.get(kind) ?? 'bin'}`;
    const bytes = await save(body, file, ctx.signal);
    await ctx.complete(async (tx) => {
      const add = 'insert into save_media values (?, ?, ?, ?, ?) on conflict (key) do nothing';
      await tx.run(add, event.key, message_id, file, kind, bytes);
    });
  },
});

/** Throws if the history does not show the message yet. */
async function mediaOf({ data }: KitEvent<'MessageReceived'>, { service }: Context): Promise<unknown> {
  for await (const { id, session_id, chat_jid, peer_phone } of service.items('ListConversations', {})) {
    if (session_id !== data.session_id || ![chat_jid, peer_phone].includes(data.from)) continue;
    for await (const message of service.items('ListMessages', { conversation_id: id })) {
      const { media_asset_id } = Object(message['media']) as { media_asset_id?: unknown };
      if ([message['id'], message['provider_message_id']].includes(data.message_id)) return media_asset_id;
    }
  }
  throw new Error('the message is not in the history: see Assumed in the header of this handler');
}

/** Resolves with the number of bytes. */
async function save(body: ReadableStream<Uint8Array>, file: string, signal: AbortSignal): Promise<number> {
  const folder = process.env['MEDIA_DIR'] || join('data', 'media');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const part = join(folder, `${randomUUID()}.part`);
  let bytes = 0;
  async function* bounded(chunks: AsyncIterable<Uint8Array>) {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) throw new Skip(`the file has more than ${MOST_BYTES} bytes`);
      yield chunk;
    }
  }
  try {
    // Opened first. If a download failed before the file was opened, the file would be opened later and stay behind.
    const target = await open(part, 'wx', 0o600);
    await pipeline(body, bounded, target.createWriteStream({ flush: true }), { signal });
    await rename(part, join(folder, file));
  } finally {
    await rm(part, { force: true });
  }
  // The folder is synced, so that the file keeps its name after a power failure.
  await using directory = await open(folder);
  await directory.sync();
  return bytes;
}
