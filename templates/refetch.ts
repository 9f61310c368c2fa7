// Fetches the current state after a gap: a range of events that the service can no longer replay. Use it if you keep a
// copy of the service's state. This template copies conversations. A gap names cursors but no times, so the handler
// reads the whole list, page by page. The rows and the task's completion are one commit, which closes the gap. For
// messages, read ListMessages of each conversation in the same way.
// Assumed: the fields of a conversation (2.9). Each field is checked before it is stored.
// Lane: none, because a gap belongs to no conversation. Freshness: any age, because the copy is wrong until the handler
// has run.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'kit.gap',
  lane: 'none',
  timeoutMs: 600_000,
  async setup(tx) {
    await tx.run(`create table if not exists refetch_conversations (
      id text primary key, status text, unread bigint, last_at bigint)`);
  },
  async handle(event, ctx) {
    const conversations: Record<string, unknown>[] = [];
    // Reads all pages of 200, until the service says that there are no more (contract 4.5).
    for await (const one of ctx.service.items('ListConversations', {}, { signal: ctx.signal })) conversations.push(one);
    ctx.log.info({ gap: event.data.gap, conversations: conversations.length }, 'conversations fetched');
    await ctx.complete(async (tx) => {
      for (const { id, status, unread_count, last_message_at_unix_ms: at } of conversations) {
        if (typeof id !== 'string') continue;
        await tx.run(
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
