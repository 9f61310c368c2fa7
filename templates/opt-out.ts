// Records who wants no more messages: STOP, SAIR, PARAR. START and VOLTAR take it back.
// Handlers that send must ask this table first, as auto-reply does: `select 1 from opt_out where peer = ? and state = 'out'`.
// Lane: the conversation. Freshness: never too old, because an opt-out does not expire.
// Needs: nothing.
// Assumed: a person has the same `from` at each of your phone numbers, so that an opt-out is for all of them.
// A message counts only if it is just the word. Case, accents and punctuation do not matter. Words in groups do not count.
// The word with the highest cursor wins, so redeliveries, late events and reruns change nothing.
import { defineHandler, Skip } from '#kit';

const OUT = ['stop', 'sair', 'parar'];
const BACK = ['start', 'voltar'];
const LONGEST = 40;

export default defineHandler({
  on: 'MessageReceived',
  order: 'arrival',
  setup: [
    `create table if not exists opt_out (
      peer text primary key, state text not null, word_cursor bigint not null)`,
  ],
  async handle({ cursor, data }, ctx) {
    if (data.is_group) throw new Skip('words in groups do not count');
    const word = wordOf(data.body);
    if (!OUT.includes(word) && !BACK.includes(word)) return;
    const state = OUT.includes(word) ? 'out' : 'in';
    ctx.log.info({ state }, 'opt-out changed');
    await ctx.complete(async (tx) => {
      // An event without a cursor, as `npx kit trigger` sends it, changes only a row that was written without one.
      await tx.run(
        `insert into opt_out values (?, ?, ?) on conflict (peer) do update
         set state = excluded.state, word_cursor = excluded.word_cursor
         where excluded.word_cursor >= opt_out.word_cursor`,
        ...[data.from, state, BigInt(cursor ?? -1)],
      );
    });
  },
});

/** The message in lower case, without accents, and without punctuation around it. */
function wordOf(body: string): string {
  if (body.length > LONGEST) return '';
  const plain = body.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase();
  return plain.replaceAll(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '');
}
