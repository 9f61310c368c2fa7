// Keeps a list of conversations, with last message and unread count.
// Use it as your own read model in the kit's store. The program that shows the list must set `unread = 0`.
// Lane: the conversation. Freshness: any age, and history too, because the list must have no holes.
// Needs: nothing.
// Assumed: a session and `from` identify a conversation, as in src/events.ts. Adapt this if your groups differ.
// Its rows are committed together with the task's completion, so the two never disagree. A rerun changes nothing, because
// the table `conversations_seen` holds the handled events. A late message counts as unread, but does not become the last
// message. If you use this template twice, rename its tables in the second handler. Otherwise the second handler skips
// the events that the first has seen.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  history: true,
  setup: [
    'create table conversations_seen (key text primary key)',
    `create table conversations (
      session_id text not null, peer text not null, unread bigint not null,
      last_cursor bigint not null, last_message_id text not null, last_at bigint not null,
      primary key (session_id, peer))`,
  ],
  async handle(event, ctx) {
    const { session_id, from, message_id, timestamp_unix_ms } = event.data;
    await ctx.complete(async (tx) => {
      const { changes } = await tx.run('insert into conversations_seen values (?) on conflict do nothing', event.key);
      if (changes === 0) return;
      // Cursors are ordered as integers (contract 6.3). A message without a cursor never becomes the last one.
      const cursor = BigInt(event.cursor ?? -1);
      const at = BigInt(timestamp_unix_ms ?? 0);
      await tx.run(
        `insert into conversations values (?, ?, 1, ?, ?, ?)
         on conflict (session_id, peer) do update set unread = conversations.unread + 1`,
        ...[session_id, from, cursor, message_id, at],
      );
      await tx.run(
        `update conversations set last_cursor = ?, last_message_id = ?, last_at = ?
         where session_id = ? and peer = ? and last_cursor < ?`,
        ...[cursor, message_id, at, session_id, from, cursor],
      );
    });
  },
});
