// Throttles, counts and logs wrong tokens: of the log-in form, and bearer tokens. A right token always passes, so that
// nobody can lock its holder out. No token is logged.
import { isIP } from 'node:net';
import type { Context } from 'koa';
import { createThrottle } from '../base/log.ts';
import type { Keep } from '../keep/module.ts';
import { orNone } from '../store/or-none.ts';
import { addTo, type Counts, type StateStore } from '../store/state.ts';

/** After this many wrong tokens within WRONG_MS, further ones get 429 instead of 401. */
const WRONG = 5;
const WRONG_MS = 60_000;
/** Minimum interval between writes of the counts, because anyone can send wrong tokens. */
const WRITE_MS = 1_000;

export type WrongTokens = ReturnType<typeof createWrongTokens>;

export interface WrongTokensOptions extends Pick<Keep, 'clock' | 'log'> {
  store: { state: Pick<StateStore, 'note'> };
}

export function createWrongTokens({ store, clock, log }: WrongTokensOptions) {
  const throttle = createThrottle(clock);
  let last: number[] = [];
  let counts: Counts = {};
  let writtenAt = -Infinity;

  async function save(): Promise<void> {
    const written = counts;
    if (Object.keys(written).length === 0) return;
    [counts, writtenAt] = [{}, clock.monotonic()];
    const done = await orNone(async () => (await store.state.note(written), true));
    if (done) return;
    for (const [name, count] of Object.entries(written) as [keyof Counts, number][]) addTo(counts, name, count);
  }

  return {
    refuse(ctx: Context, kind: 'form' | 'bearer'): 'wrong' | 'throttled' {
      const now = clock.monotonic();
      last = [...last.filter((at) => now - at < WRONG_MS), now].slice(-WRONG - 1);
      const outcome = last.length > WRONG ? 'throttled' : 'wrong';
      addTo(counts, `wrong_tokens.${kind}`);
      if (now - writtenAt >= WRITE_MS) void save();
      const more = throttle(kind);
      if (more) log.warn({ outcome, by: kind, ...addressesOf(ctx), ...more }, 'a wrong token at the ops port');
      return outcome;
    },
    /** Writes the counts that are not written yet. */
    save,
  };
}

/** `from`: the peer. `forwarded`: the address that a proxy in front has added, if it is one: anyone can send the header. */
function addressesOf(ctx: Context): { from: string; forwarded?: string } {
  const forwarded = ctx.get('x-forwarded-for').split(',').at(-1)?.trim() ?? '';
  return { from: ctx.ip, ...(isIP(forwarded) && forwarded.length <= 45 ? { forwarded } : {}) };
}
