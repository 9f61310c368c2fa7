// `npx kit verify`: reads a stretch of the service's history again, with the calls that are left, recovers what is
// missing, and compares it with what is stored. Its account lies in the store, where the command follows it and a
// restart of `keep` finds it.
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import type { VerifyAccount } from '../store/keep.ts';
import type { PassContext, Pass } from './pass.ts';

const STEP = 5_000;

export interface VerifyPass extends Pass {
  /** Whether somebody has asked. */
  look(): Promise<void>;
}

export function createVerifyPass({ store, clock, budget, commit, say }: PassContext): VerifyPass {
  let account: VerifyAccount | null = null;
  let readAt = -Infinity;

  async function save(verified: VerifyAccount): Promise<void> {
    // Somebody has begun another meanwhile.
    if ((await store.verifying())?.asked !== verified.asked) return;
    await store.note({}, { verify: JSON.stringify(verified) });
  }

  /** What is stored of the stretch, and what became of it. */
  async function count(verified: VerifyAccount): Promise<void> {
    for (let after: Cursor | null = verified.from; ;) {
      const stretch = await store.stretch(after, verified.at, verified.asked, STEP);
      for (const { type, stored, handled, dead } of stretch.types) {
        const sum = of(verified, type);
        sum.onlyHere += stored;
        sum.handled += handled;
        sum.dead += dead;
      }
      if (stretch.next === null) break;
      after = stretch.next;
    }
    for (const sum of verified.types) sum.onlyHere = Math.max(0, sum.onlyHere - sum.present - sum.missing);
  }

  return {
    async look() {
      const found = await store.verifying();
      account = found?.state === 'running' ? found : null;
    },
    // Half of the calls are left to what waits for proof.
    dueAt: () => (account ? readAt + budget.spacing() : Infinity),
    after: async () => account?.at,
    async take(page, after) {
      const verified = account;
      if (!verified) return;
      readAt = clock.monotonic();
      const results = await commit(page);
      const shown = new Set<string>();
      for (const [index, reading] of page.readings.entries()) {
        if (!('event' in reading) || reading.event.cursor === null || shown.has(reading.event.cursor)) continue;
        if (after !== null && compareCursors(reading.event.cursor, after) <= 0) continue;
        shown.add(reading.event.cursor);
        const sum = of(verified, reading.event.type);
        const result = results[index];
        if (result?.pruned) sum.older++;
        else if (result?.verdict === 'new') sum.missing++;
        else sum.present++;
      }
      verified.pages++;
      verified.events += shown.size;
      verified.at = page.proved ?? verified.at;
      if (!page.hasMore) {
        await count(verified);
        verified.state = 'done';
        await say('idle', null);
      }
      await save(verified);
    },
    async stop(why) {
      if (!account) return null;
      const reasons = {
        stuck: 'replay does not advance: it says that there is more, and shows nothing',
        unknown:
          'the service does not know the cursor that it begins at: give an event of the account, see npx kit events',
        forgotten: 'the service no longer has what comes after this cursor: give a later --from',
      };
      await say('idle', null);
      await save({ ...account, state: 'failed', reason: reasons[why] });
      return null;
    },
  };
}

function of({ types }: VerifyAccount, type: string): VerifyAccount['types'][number] {
  const known = types.find((one) => one.type === type);
  if (known) return known;
  const sum = { type, present: 0, missing: 0, older: 0, onlyHere: 0, handled: 0, dead: 0 };
  types.push(sum);
  return sum;
}
