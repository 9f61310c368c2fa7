// Logs the end of an attempt. The error message is left out, except in `npm run dev`, because it may quote a stranger's
// text. `npx kit explain` shows the message.
import type { Throttle } from '../base/log.ts';
import type { Claim, Settlement } from '../store/work.ts';
import type { Attempt } from './attempt.ts';
import type { Loaded } from './load-handlers.ts';
import type { RunOptions } from './runner-options.ts';

/** By the state of the settlement; `ready` is a task that waits for its next attempt. */
const VERDICTS = {
  done: { verdict: 'done', level: 'debug', words: 'handled' },
  skipped: { verdict: 'skipped', level: 'debug', words: 'skipped' },
  dead: { verdict: 'dead', level: 'error', words: 'dead letter: see npx kit explain' },
  ready: { verdict: 'retry', level: 'warn', words: 'failed; will be retried: see npx kit explain' },
  completed: { verdict: 'done', level: 'warn', words: 'failed after ctx.complete; the task stays done' },
} as const;

export interface AttemptLog extends Pick<RunOptions, 'log' | 'tellsWhy'> {
  throttle?: Throttle;
}

export interface Ended {
  claim: Claim;
  handler: Loaded;
  /** Null: `ctx.complete` has settled the task. */
  settlement: Settlement | null;
  attempt: Attempt;
  ms: number;
}

/**
 * Logs one line per attempt, throttled if there are many. A lane appears by its number, because its name may hold a
 * phone number.
 */
export function logEnd({ log, tellsWhy, throttle }: AttemptLog, ended: Ended, how = ''): void {
  const { claim, handler, settlement, attempt, ms } = ended;
  const completed = Object.keys(attempt.thrown()).length > 0 ? 'completed' : 'done';
  const { verdict, level, words } = VERDICTS[settlement?.state ?? completed];
  if (!log.isLevelEnabled(level)) return;
  const more = level === 'debug' || !throttle ? {} : throttle(`${verdict} ${handler.name}`);
  if (!more) return;
  const { key, type, origin } = claim.event;
  const error = settlement?.error ?? attempt.why();
  const why = tellsWhy && error ? { why: error } : {};
  const task = { handler: handler.name, lane: claim.lane, attempt: claim.attempt, late: claim.late };
  const unproven = claim.unproven ? { unproven: true } : {};
  log[level](
    { key, type, origin, ...task, ...unproven, verdict, ms, ...attempt.thrown(), ...why, ...more },
    `${how}${words}`,
  );
}
