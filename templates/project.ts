// Keeps a list of conversations: the last message of each, and how many are unread. Use it as a read model of your own,
// in the same SQLite file, committed together with the task's completion: never ahead of it, never behind.
// A re-run changes nothing (project_seen), and what comes late counts as unread without becoming the last message.
// Whoever shows the list sets `unread = 0`. Assumed: a conversation is its session and `from`, as in src/events.ts;
// adapt it where your groups say otherwise.
// Two handlers of this template need two names for these tables, or the second finds all seen already.
// Lane: the conversation. Freshness: however old, and history too, because a list with holes is wrong.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  history: true,
  setup(tx) {
    tx.run('create table if not exists project_seen (key text primary key) without rowid, strict');
    tx.run(`create table if not exists project_conversations (
      session_id text not null, peer text not null, unread integer not null,
      last_cursor integer not null, last_message_id text not null, last_at integer not null,
      primary key (session_id, peer)) strict`);
  },
  async handle(event, ctx) {
    const { session_id, from, message_id, timestamp_unix_ms } = event.data;
    await ctx.complete((tx) => {
      const { changes } = tx.run('insert into project_seen values (?) on conflict do nothing', event.key);
      if (changes === 0) return;
      // Order by cursor (contract 6.3), as an integer; one that has none is never the last.
      const cursor = BigInt(event.cursor ?? -1);
      tx.run(
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
