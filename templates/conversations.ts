// Keeps a list of conversations, with last message and unread count, in a table of its own.
// The program that shows a conversation to a person must set its `unread` to 0.
// Lane: the conversation. Freshness: never too old, because the list must be complete.
// Needs: nothing.
// Assumed: session and `from` make a conversation, as in src/events.ts. Adapt it if you need groups.
// One commit holds the rows and the task's completion, so they never disagree. A rerun counts nothing twice, because
// `conversations_seen` holds the events that were counted. If you use the template twice, rename the second one's tables.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  setup: [
    'create table conversations_seen (key text primary key)',
    `create table conversations (
      session_id text not null, peer text not null, unread bigint not null,
      last_cursor bigint not null, last_message_id text not null, last_at bigint not null,
      primary key (session_id, peer))`,
  ],
  async handle({ key, cursor, data }, ctx) {
    const { session_id, from, message_id, timestamp_unix_ms: at } = data;
    await ctx.complete(async (tx) => {
      const { changes } = await tx.run('insert into conversations_seen values (?) on conflict do nothing', key);
      if (changes === 0) return;
      // A late message counts, but does not become the last one. Cursors are ordered as integers (contract 6.3).
      const last = [BigInt(cursor ?? -1), message_id, BigInt(at ?? 0)];
      await tx.run(
        `insert into conversations values (?, ?, 1, ?, ?, ?)
         on conflict (session_id, peer) do update set unread = conversations.unread + 1`,
        ...[session_id, from, ...last],
      );
      await tx.run(
        `update conversations set last_cursor = ?, last_message_id = ?, last_at = ?
         where session_id = ? and peer = ? and last_cursor < ?`,
        ...[...last, session_id, from, BigInt(cursor ?? -1)],
      );
    });
  },
});
