// Fetches the current state after a gap in the history.
// Use it if you keep a copy of the service's state. This template copies conversations. For messages, read ListMessages
// of each conversation in the same way.
// Lane: one for all gaps, so that an older list never replaces a newer one. Freshness: any age, because the copy is wrong
// until the handler has run.
// Needs: an API key with product:inbox.
// Assumed: the fields of a conversation (contract 2.9). Each field is checked before it is stored.
// A gap names cursors but no times, so the handler reads the whole list, page by page. The rows and the task's
// completion are one commit, which closes the gap. A second run writes the same rows.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'kit.gap',
  lane: () => 'all',
  timeoutMs: 600_000,
  setup: [
    `create table fill_gap_conversations (
      id text primary key, status text, unread bigint, last_at bigint)`,
  ],
  async handle(event, ctx) {
    const conversations: Record<string, unknown>[] = [];
    // Reads all pages of 200, until the service says that there are no more (contract 4.5).
    for await (const one of ctx.service.items('ListConversations', {}, { signal: ctx.signal })) conversations.push(one);
    ctx.log.info({ gap: event.data.gap, conversations: conversations.length }, 'conversations fetched');
    await ctx.complete(async (tx) => {
      for (const { id, status, unread_count, last_message_at_unix_ms: at } of conversations) {
        if (typeof id !== 'string') continue;
        await tx.run(
          `insert into fill_gap_conversations values (?, ?, ?, ?) on conflict (id) do update
           set status = excluded.status, unread = excluded.unread, last_at = excluded.last_at`,
          id,
          typeof status === 'string' ? status : null,
          Number.isSafeInteger(unread_count) ? Number(unread_count) : null,
          typeof at === 'string' && /^\d{1,18}$/.test(at) ? BigInt(at) : null,
        );
      }
    });
  },
});
