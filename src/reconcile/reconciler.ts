// The reconciler decides which pass makes the next call of ReplayEvents: the forward pass, then the overlap pass, then
// verify. While the search pass is active, it replaces the forward pass. All calls stay within the budget.
import type { Accepted, Batch } from '../store/ingest.ts';
import { createCall, type BackOff } from './call.ts';
import { createForwardPass } from './forward-pass.ts';
import { createOverlapPass, READING_AGAIN } from './overlap-pass.ts';
import type { Page } from './page.ts';
import type { Pass, PassContext, ReconcilerOptions } from './pass.ts';
import { createPositions } from './position.ts';
import { wordsOf } from './progress.ts';
import { createStatus } from './status.ts';
import { createVerifyPass } from './verify-pass.ts';

export type Reconciler = ReturnType<typeof createReconciler>;

/** Milliseconds between two looks for a person's request (`npx kit reconcile`). */
const ASKED_MS = 1_000;

// oxlint-disable-next-line max-lines-per-function -- one idea: the step, and a person's request that makes the next step due
export function createReconciler(options: ReconcilerOptions) {
  const { store, clock, budget, onEvents } = options;
  let asked: number | null = null;
  const status = createStatus(options);
  const { say } = status;
  const context: PassContext = { ...options, commit, say };
  const overlap = createOverlapPass(context);
  const forward = createForwardPass(context, overlap);
  const verify = createVerifyPass(context);
  const passes: Pass[] = [forward.search, forward, overlap, verify];
  const positions = createPositions();
  const backOff: BackOff = { until: -Infinity, failures: 0 };
  const call = createCall(context, { status, positions, backOff });

  /** Makes at most one call. Resolves to the milliseconds until the next step. */
  async function step(): Promise<number> {
    await status.load();
    await lookForRequest();
    await verify.look();
    const now = clock.monotonic();
    const dueAt = (one: Pass): number => Math.max(one.dueAt(), positions.pauseUntil(one));
    const pass = passes.find((one) => dueAt(one) <= now);
    const wait = Math.max(backOff.until, pass ? -Infinity : Math.min(...passes.map(dueAt))) - now;
    if (wait > 0 || !pass) return Math.min(wait, ASKED_MS);
    const after = await pass.after();
    if (after === undefined) return 0;
    const { state, progress } = status.shown();
    const untilCall = budget.take();
    if (untilCall > 0) {
      const words = progress ? wordsOf(progress) : pass === overlap ? READING_AGAIN : null;
      // While the pass waits for the call budget, the state stays `backing-off`.
      if (state !== 'backing-off')
        await say('running', [words, 'waiting for the call budget'].filter(Boolean).join('; '));
      return Math.min(untilCall, ASKED_MS);
    }
    if (state !== 'backing-off' && state !== 'running') await say('running', null);
    await call(pass, after);
    return 0;
  }

  /** Looks for a person's request (`npx kit reconcile`), which ends every pause. */
  async function lookForRequest(): Promise<void> {
    const latest = await store.state.get('reconcile_asked');
    asked ??= latest;
    // Any change is a new request, even to an earlier time, because the clock may have been set back.
    if (latest === asked) return;
    asked = latest;
    Object.assign(backOff, { until: -Infinity, failures: 0 });
    positions.hurry();
    forward.now();
    options.onAsked?.();
    await say('running', null);
  }

  async function commit(page: Page, more: Partial<Batch> = {}): Promise<Accepted[]> {
    const counts = { replay_calls: 1, ...more.counts };
    const results = await store.ingest.accept({ readings: page.readings, now: clock.now(), ...more, counts });
    const recovered = results.filter(({ verdict }) => verdict === 'new').length;
    status.page(recovered);
    if (more.gap || recovered > 0) onEvents();
    return results;
  }

  const { prove, now, fresh, ended } = forward;
  return { step, prove, now, fresh, ended };
}
