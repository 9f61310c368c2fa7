// The verify pass (`npx kit verify`) reads a range of the service's history again, with calls that other passes do not
// need. It recovers missing events and compares the range with the store. Its result is stored as it grows, so the
// command can show it, and `keep` continues after a restart.
import type { Store } from '../store/store.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Accepted } from '../store/ingest.ts';
import type { Stretch, VerifyAccount } from '../store/keep.ts';
import type { Page } from './page.ts';
import type { Pass, PassContext } from './pass.ts';

const STEP = 5_000;

const REASONS = {
  stuck: 'replay does not advance: it says that there is more, and shows nothing',
  unknown: 'the service does not know the cursor that it begins at: give an event of the account, see npx kit events',
  forgotten: 'the service no longer has what comes after this cursor: give a later --from',
};

export function createVerifyPass({ store, clock, budget, commit, say }: PassContext) {
  let account: VerifyAccount | null = null;
  let readAt = -Infinity;

  async function save(verified: VerifyAccount): Promise<void> {
    // If another verify began meanwhile, the result of this one is dropped.
    if ((await store.state.get('verify'))?.asked !== verified.asked) return;
    await store.state.note({}, { verify: JSON.stringify(verified) });
  }

  return {
    name: 'verify',
    /** Loads the `npx kit verify` that is running, if there is one. */
    async look(): Promise<void> {
      const found = await store.state.get('verify');
      account = found?.state === 'running' ? found : null;
    },
    // Half of the calls are left for the other passes.
    dueAt: () => (account ? readAt + budget.spacing() : Infinity),
    after: async () => account?.at,
    async take(page, after) {
      const verified = account;
      if (!verified) return;
      readAt = clock.monotonic();
      countShown(verified, page, after, await commit(page));
      verified.at = page.proved ?? verified.at;
      if (!page.hasMore) {
        await countStored(verified, store);
        verified.state = 'done';
        await say('idle', null);
      }
      await save(verified);
    },
    async stop(why) {
      if (!account) return null;
      await say('idle', null);
      await save({ ...account, state: 'failed', reason: REASONS[why] });
      return null;
    },
  } satisfies Pass & Record<string, unknown>;
}

/** Counts the events of a page: `present`, `missing`, or `older` (at or below the floor, so perhaps pruned). */
function countShown(verified: VerifyAccount, page: Page, after: Cursor | null, results: Accepted[]): void {
  const shown = new Set<Cursor>();
  for (const [index, reading] of page.readings.entries()) {
    if (!('event' in reading)) continue;
    const { cursor, type } = reading.event;
    if (cursor === null || shown.has(cursor) || !isBehind(after, cursor)) continue;
    shown.add(cursor);
    const sum = of(verified, type);
    const result = results[index];
    if (result?.pruned) sum.older++;
    else if (result?.verdict === 'new') sum.missing++;
    else sum.present++;
  }
  verified.pages++;
  verified.events += shown.size;
}

/** Counts the stored events of the range, and how many were handled or are dead letters. */
async function countStored(verified: VerifyAccount, store: Store): Promise<void> {
  for (let after: Cursor | null = verified.from; after !== null;) {
    const range: Stretch = await store.replay.stretch(after, verified.at, verified.asked, STEP);
    for (const { type, stored, handled, dead } of range.types) {
      const sum = of(verified, type);
      sum.onlyHere += stored;
      sum.handled += handled;
      sum.dead += dead;
    }
    after = range.next;
  }
  for (const sum of verified.types) sum.onlyHere = Math.max(0, sum.onlyHere - sum.present - sum.missing);
}

function of({ types }: VerifyAccount, type: string): VerifyAccount['types'][number] {
  const known = types.find((one) => one.type === type);
  if (known) return known;
  const sum = { type, present: 0, missing: 0, older: 0, onlyHere: 0, handled: 0, dead: 0 };
  types.push(sum);
  return sum;
}
