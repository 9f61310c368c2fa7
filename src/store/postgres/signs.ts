// Signs of life, once a second. A process that gives them regularly judges those that do not.
import { judge, WEIGHT } from '../boots.ts';
import { missLost } from '../handlers.ts';
import { LONGEST_STEP_MS } from '../work.ts';
import type { Connections } from './connection.ts';
import { IDS, idsOf } from './rows.ts';

/** A boot without a sign for `lost` is judged. One in its set-up has no handlers yet, and may take longer. */
const SIGN_MS = { apart: 1_000, gap: 3_000, lost: 10_000, setup: LONGEST_STEP_MS };
const STALE = `seen_at < now_ms() - case when role = 'live' and handlers = '[]' then ${SIGN_MS.setup} else ${SIGN_MS.lost} end`;
const SIGN = `with mine as (update boots set seen_at = now_ms() where id = @boot)
  select id from boots where id <> @boot and ${STALE}`;

export function createSigns(db: Connections) {
  const { clock } = db;
  let signedAt = -Infinity;
  /** Since when this process has given signs regularly. After an outage of the server, all signs are old. */
  let since = -Infinity;
  return async (boot: number): Promise<void> => {
    if (clock.monotonic() - signedAt < SIGN_MS.apart) return;
    const stale = await db.all<{ id: number }>(SIGN, { boot });
    const now = clock.monotonic();
    if (now - signedAt > SIGN_MS.gap) since = now;
    signedAt = now;
    if (stale.length === 0 || now - since < SIGN_MS.lost) return;
    await db.write(async (tx) => {
      const gone = await tx.all<{ id: number }>(`delete from boots where ${IDS} and ${STALE} returning id`, {
        ids: idsOf(stale),
      });
      await judge(tx, idsOf(gone), WEIGHT.ofKit, clock.now());
      await missLost(tx);
    });
  };
}
