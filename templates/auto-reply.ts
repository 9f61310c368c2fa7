// Sends one paid reply to a burst of messages: once, or not at all.
// Lane: the conversation. Freshness: ten minutes. `maxAgeMs` is not used, because a send that was begun must be looked up
// at any age.
// Needs: PAID_OPERATIONS=allow, and an API key with messages:send and product:inbox.
// Assumed: the operation's name in a quote, the fields of `reply`, `idempotency_key` in the messages of the history
// (contract 2.8), and `conversation_id` in ListMessages.
// Before it sends, it notes that the send has begun. It then sends again only after a refusal. Otherwise a later attempt
// or rerun looks for the reply in the history (contract 7.3), so neither an unknown outcome nor a crash sends twice. If the
// history never shows the reply, the task becomes a dead letter: check whether it was sent; if not, answer by hand.
// A message up to a minute after an answered one gets no reply of its own. A conversation gets at most three an hour,
// so that two bots do not answer each other for ever. A writer who has opted out gets none: the template opt-out runs
// at once, and this handler only after the order window.
import { defineHandler, ServiceError, Skip, type Context, type KitEvent } from '#kit';

const MINUTE_MS = 60_000;
const OPERATION = 'messages/send';
type Received = KitEvent<'MessageReceived'>;

export default defineHandler({
  on: 'MessageReceived',
  // The history is searched again and again, for up to an hour. Later messages wait, so that they get no second reply.
  retry: { attempts: 8, firstMs: MINUTE_MS / 2, maxMs: 30 * MINUTE_MS },
  laneHoldMs: 120 * MINUTE_MS,
  timeoutMs: MINUTE_MS,
  setup: [
    `create table if not exists auto_reply (
      session_id text, peer text, key text, at bigint not null, primary key (session_id, peer, key))`,
    // The table of the template opt-out. Without that handler it stays empty.
    `create table if not exists opt_out (
      peer text primary key, state text not null, word_cursor bigint not null)`,
  ],
  async handle(event, ctx) {
    if (ctx.notes['begun'] === true) await findReply(event, ctx);
    else await sendReply(event, ctx);
    const { session_id, from } = event.data;
    await ctx.complete(async (tx) => {
      const add = 'insert into auto_reply values (?, ?, ?, ?) on conflict (session_id, peer, key) do nothing';
      await tx.run(add, session_id, from, event.key, Date.parse(event.createdAt ?? ''));
    });
  },
});

async function sendReply({ data, createdAt }: Received, ctx: Context): Promise<void> {
  const { session_id, from, is_group } = data;
  if (process.env['PAID_OPERATIONS'] !== 'allow') throw new Skip('a reply costs money: set PAID_OPERATIONS=allow');
  if (is_group) throw new Skip('groups get no reply');
  if (createdAt === null || ctx.lagMs === null || ctx.lagMs > 10 * MINUTE_MS) throw new Skip('too late for a reply');
  const at = Date.parse(createdAt);
  const within = 'select at from auto_reply where session_id = ? and peer = ? and at > ?';
  const replies = await ctx.read(within, session_id, from, at - 60 * MINUTE_MS);
  if (replies.length >= 3) throw new Skip('this conversation has had its replies of this hour');
  if (replies.some((reply) => Number(reply['at']) > at - MINUTE_MS)) throw new Skip('a reply to this burst was sent');

  const text = 'Thank you for your message. We will answer soon.';
  const reply = { session_id, to: from, body: text, idempotency_key: ctx.idempotencyKey };
  const { quoteId } = await ctx.service.quote(OPERATION, reply);
  const out = await ctx.read("select 1 from opt_out where peer = ? and state = 'out'", from);
  if (out.length > 0) throw new Skip('the writer has opted out');
  // `note` throws if this attempt has timed out, so of two attempts that overlap, only one sends.
  await ctx.note('begun', true);
  try {
    await ctx.service.send(reply, { quoteId });
  } catch (error) {
    // It is certain that nothing was sent, so the next attempt may send.
    if (error instanceof ServiceError && !error.uncertain) await ctx.note('begun', false);
    throw error;
  }
}

/** Returns if the reply is in the history. Otherwise throws, so that a later attempt looks again. */
async function findReply({ data }: Received, { service, idempotencyKey }: Context): Promise<void> {
  for await (const { id, session_id, chat_jid, peer_phone } of service.items('ListConversations', {})) {
    if (session_id !== data.session_id || ![chat_jid, peer_phone].includes(data.from)) continue;
    for await (const message of service.items('ListMessages', { conversation_id: id }))
      if (message['idempotency_key'] === idempotencyKey) return;
  }
  throw new Error(
    'a reply was begun, but is not in the history: check whether it was sent (see the header of this handler)',
  );
}
