// Keeps a list of conversations: the last message of each, and how many are unread. Use it as your own read model in
// the kit's SQLite file. Its rows are committed together with the task's completion, so the two never disagree.
// A rerun changes nothing, because the table `project_seen` holds the handled events. A late message counts as unread,
// but does not become the last message. The program that shows the list must set `unread = 0`.
// Assumed: a session and `from` identify a conversation, as in src/events.ts. Adapt this if your groups differ.
// If you use this template twice, rename its tables in the second handler. Otherwise the second handler skips the
// events that the first has seen.
// Lane: the conversation. Freshness: any age, and history too, because the list must have no holes.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  history: true,
  async setup(tx) {
    await tx.run('create table if not exists project_seen (key text primary key) without rowid, strict');
    await tx.run(`create table if not exists project_conversations (
      session_id text not null, peer text not null, unread integer not null,
      last_cursor integer not null, last_message_id text not null, last_at integer not null,
      primary key (session_id, peer)) strict`);
  },
  async handle(event, ctx) {
    const { session_id, from, message_id, timestamp_unix_ms } = event.data;
    await ctx.complete(async (tx) => {
      const { changes } = await tx.run('insert into project_seen values (?) on conflict do nothing', event.key);
      if (changes === 0) return;
      // Cursors are ordered as integers (contract 6.3). A message without a cursor never becomes the last one.
      const cursor = BigInt(event.cursor ?? -1);
      await tx.run(
        `insert into project_conversations values (?, ?, 1, ?, ?, ?)
         on conflict (session_id, peer) do update set unread = unread + 1,
           last_message_id = iif(excluded.last_cursor > last_cursor, excluded.last_message_id, last_message_id),
           last_at = iif(excluded.last_cursor > last_cursor, excluded.last_at, last_at),
           last_cursor = max(last_cursor, excluded.last_cursor)`,
        ...[session_id, from, cursor, message_id, BigInt(timestamp_unix_ms ?? 0)],
      );
    });
  },
});
