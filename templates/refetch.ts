// Fetches anew what a gap has swallowed: events that the service can no longer replay. Use it where you keep a copy of
// the service's state, here its conversations. A gap names cursors and no times, so the whole list is read, page by page;
// rows and completion are one commit, which closes the gap. For messages, read ListMessages of each in the same way.
// Assumed: the fields of a conversation (2.9), read defensively.
// Lane: none, because a gap belongs to no conversation. Freshness: however old; until this has run, the copy is wrong.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'kit.gap',
  lane: 'none',
  timeoutMs: 600_000,
  setup(tx) {
    tx.run(`create table if not exists refetch_conversations (
      id text primary key, status text, unread integer, last_at integer) without rowid, strict`);
  },
  async handle(event, ctx) {
    const conversations: Record<string, unknown>[] = [];
    // 200 a page, by cursor, until the service says that there are no more (contract 4.5).
    for await (const one of ctx.service.items('ListConversations', {}, { signal: ctx.signal })) conversations.push(one);
    ctx.log.info({ gap: event.data.gap, conversations: conversations.length }, 'fetched anew');
    await ctx.complete((tx) => {
      for (const { id, status, unread_count, last_message_at_unix_ms: at } of conversations) {
        if (typeof id !== 'string') continue;
        tx.run(
          `insert into refetch_conversations values (?, ?, ?, ?) on conflict (id) do update
           set status = excluded.status, unread = excluded.unread, last_at = excluded.last_at`,
          id,
          typeof status === 'string' ? status : null,
          typeof unread_count === 'number' ? BigInt(unread_count) : null,
          typeof at === 'string' ? BigInt(at) : null,
        );
      }
    });
  },
});
