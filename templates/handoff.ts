// Hands a conversation to a person when its writer asks for one.
// Use it beside a bot.
// Lane: the conversation. Freshness: an hour, because after that the writer was helped or has gone.
// Needs: HANDOFF_TO, the id of the user who takes over, and an API key with product:inbox.
// Assumed: the request's fields `conversation_id`, `assignee_user_id` and `assignment_version`; and that the writer's
// `from` is the conversation's `chat_jid` or `peer_phone` (contract 2.9). Groups are skipped, because there it is not.
// The request carries the assignment's version, so that it never takes a conversation away from its assignee. If the
// version is stale (ASSIGNMENT_CONFLICT), the handler reads the conversation again. If the conversation has an assignee
// by then, nothing is left to do. So a retry or rerun assigns nothing twice.
import { defineHandler, ServiceError, Skip, type Context } from '#kit';

const ASKS = /\b(human|person|agent|humano|pessoa|atendente)\b/i;
const TRIES = 3;

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  maxAgeMs: 3_600_000,
  onStale: 'skip',
  setup: () => void assignee(),
  async handle(event, ctx) {
    const { body, from, session_id, is_group } = event.data;
    if (!ASKS.test(body)) return;
    if (is_group) throw new Skip('groups are not handed over');
    for (let tries = 1; ; tries++) {
      const conversation = await find(session_id, from, ctx);
      // A new conversation may be listed later.
      if (!conversation)
        throw new Error('no conversation of this writer yet; if none ever is, adapt find in this handler');
      const { id: conversation_id, assignee_user_id: has, assignment_version } = conversation;
      if (has) return;
      try {
        const request = { conversation_id, assignee_user_id: assignee(), assignment_version };
        await ctx.service.call('AssignConversation', request, { signal: ctx.signal });
        return;
      } catch (error) {
        const stale = error instanceof ServiceError && error.reason === 'ASSIGNMENT_CONFLICT';
        if (!stale || tries === TRIES) throw error;
      }
    }
  },
});

function assignee(): string {
  const { HANDOFF_TO } = process.env;
  if (HANDOFF_TO) return HANDOFF_TO;
  throw new Error('set HANDOFF_TO to the id of the user who takes over');
}

/** Reads page by page, and stops at the writer's conversation. */
async function find(session: string, from: string, ctx: Context): Promise<Record<string, unknown> | undefined> {
  for await (const one of ctx.service.items('ListConversations', {}, { signal: ctx.signal }))
    if (one['session_id'] === session && [one['chat_jid'], one['peer_phone']].includes(from)) return one;
  return undefined;
}
