// Answers a message by a paid send: once, or not at all. Use it for a first reply or a note that you are away. It needs
// PAID_OPERATIONS=allow, and a folder that outlives the process (ANSWER_DIR, default data/answers): before it sends, it
// leaves a mark there, synced to disk. Where the mark is, it never sends again but looks into the history (contract 7.3):
// after OUTCOME_UNCERTAIN, RPC_DEADLINE_EXCEEDED, a lost connection, a timeout, a crash, a re-run by hand.
// What remains: a crash between mark and send leaves the answer unsent; it ends as a dead letter. So does one that never
// shows in the history. Look yourself; to send it after all, remove the mark and `npx kit retry`. Old marks may go once
// their events are pruned. The mark is not in backups of the store.
// The contract does not show the fields of a send, nor the operation's name in a quote. Assumed: those in `answerTo`, with
// `idempotency_key` coming back in the history (2.8), and `conversation_id` in ListMessages. Adapt them there.
// Lane: the conversation. Freshness: ten minutes, checked here and not by maxAgeMs, because what was begun must be settled
// however old it is by then.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defineHandler, ServiceError, Skip, type Context, type KitEvent } from '#kit';

const FRESH_MS = 600_000;
const OPERATION = 'messages/send';
type Received = KitEvent<'MessageReceived'>;

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  // The first look into the history comes 15 s or more after a doubtful send, the last after an hour or so.
  retry: { attempts: 8, firstMs: 30_000, maxMs: 1_800_000 },
  timeoutMs: 60_000,
  async handle(event, ctx) {
    const mark = join(
      process.env['ANSWER_DIR'] ?? 'data/answers',
      createHash('sha256').update(ctx.idempotencyKey).digest('hex'),
    );
    if (existsSync(mark)) return settle(event, ctx, mark);
    if (ctx.lagMs === null || ctx.lagMs > FRESH_MS) throw new Skip('stale: too late to answer');
    if (event.data.is_group) throw new Skip('groups are not answered');

    const message = answerTo(event, ctx);
    const { quoteId } = await ctx.service.quote(OPERATION, message, { signal: ctx.signal });
    mkdirSync(dirname(mark), { recursive: true });
    // Fails where the mark is there: of two attempts that overlap, by a timeout say, one sends.
    writeFileSync(mark, '', { flag: 'wx', flush: true });
    try {
      await ctx.service.send(message, { quoteId, signal: ctx.signal });
    } catch (error) {
      // Refused for certain: nothing was sent, and the next attempt may begin anew, with a new quote.
      if (error instanceof ServiceError && !error.uncertain) rmSync(mark);
      throw error;
    }
  },
});

function answerTo({ data }: Received, ctx: Context): Record<string, unknown> {
  const text = 'Thank you for your message. We will answer soon.';
  return { session_id: data.session_id, to: data.from, body: text, idempotency_key: ctx.idempotencyKey };
}

/** Returns where the answer is in the history; throws where it is not, so that it is looked for again later. */
async function settle({ data }: Received, { service, signal, idempotencyKey }: Context, mark: string): Promise<void> {
  for await (const conversation of service.items('ListConversations', {}, { signal })) {
    const { id, session_id, chat_jid, peer_phone } = conversation;
    if (session_id !== data.session_id || ![chat_jid, peer_phone].includes(data.from)) continue;
    for await (const message of service.items('ListMessages', { conversation_id: id }, { signal }))
      if (message.idempotency_key === idempotencyKey) return;
  }
  throw new Error(`begun, and not in the history: look whether it was sent; see the header of this handler; ${mark}`);
}
