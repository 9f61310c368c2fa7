// Answers a message with a paid send: once, or not at all. Use it for a first reply, or to say that you are away.
// It needs PAID_OPERATIONS=allow. Before the handler sends, it notes in the store that the send has begun. If an earlier
// attempt noted that, the handler does not send. It looks for the answer in the history instead (contract 7.3). So
// nothing is sent twice after OUTCOME_UNCERTAIN, RPC_DEADLINE_EXCEEDED, a lost connection, a timeout, a crash, or a rerun.
// `ctx.attempt` cannot replace the note, because a crashed attempt may not be counted.
// After a crash between note and send, nothing is sent, and the task becomes a dead letter. The task also becomes a
// dead letter if the answer never appears in the history. Check whether it was sent; if not, answer by hand.
// The contract does not show the fields of a send, nor the operation's name in a quote. Assumed: the fields in
// `answerTo`, `idempotency_key` in the messages of the history (2.8), and `conversation_id` in ListMessages. Adapt them
// below.
// Lane: the conversation. Freshness: ten minutes. The handler checks the age itself and does not set `maxAgeMs`,
// because a send that was begun must be looked up at any age.
import { defineHandler, ServiceError, Skip, type Context, type KitEvent } from '#kit';

const FRESH_MS = 600_000;
const OPERATION = 'messages/send';
type Received = KitEvent<'MessageReceived'>;

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  // If the outcome of a send is unknown, the handler looks into the history. The first look is 15 s later or more, the
  // last after about an hour at most.
  retry: { attempts: 8, firstMs: 30_000, maxMs: 1_800_000 },
  timeoutMs: 60_000,
  async handle(event, ctx) {
    if (ctx.notes['begun'] === true) return settle(event, ctx);
    if (ctx.lagMs === null || ctx.lagMs > FRESH_MS) throw new Skip('stale: too late to answer');
    if (event.data.is_group) throw new Skip('groups are not answered');

    const message = answerTo(event, ctx);
    const { quoteId } = await ctx.service.quote(OPERATION, message, { signal: ctx.signal });
    // It throws if this attempt has timed out, so of two attempts that overlap, only one sends.
    await ctx.note('begun', true);
    try {
      await ctx.service.send(message, { quoteId, signal: ctx.signal });
    } catch (error) {
      // If the error is not `uncertain`, no message was sent, so the next attempt may send.
      if (error instanceof ServiceError && !error.uncertain) await ctx.note('begun', false);
      throw error;
    }
  },
});

function answerTo({ data }: Received, ctx: Context): Record<string, unknown> {
  const text = 'Thank you for your message. We will answer soon.';
  return { session_id: data.session_id, to: data.from, body: text, idempotency_key: ctx.idempotencyKey };
}

/** Returns if the answer is in the history. Otherwise throws, so that a later attempt looks again. */
async function settle({ data }: Received, { service, signal, idempotencyKey }: Context): Promise<void> {
  for await (const conversation of service.items('ListConversations', {}, { signal })) {
    const { id, session_id, chat_jid, peer_phone } = conversation;
    if (session_id !== data.session_id || ![chat_jid, peer_phone].includes(data.from)) continue;
    for await (const message of service.items('ListMessages', { conversation_id: id }, { signal }))
      if (message.idempotency_key === idempotencyKey) return;
  }
  throw new Error('begun, but not in the history: check whether it was sent, see the header of this handler');
}
