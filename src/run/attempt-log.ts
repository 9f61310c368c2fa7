// The log line of an attempt's end. Why it failed stays out, except in dev: it may quote what strangers wrote.
import type { Logger, Seldom } from '../base/log.ts';
import type { Claim, Settlement } from '../store/work.ts';
import type { Attempt } from './attempt.ts';
import type { Loaded } from './load.ts';

/** How the end of an attempt is said; `ready` is a task that waits for its next. */
const VERDICTS = {
  done: { verdict: 'done', level: 'debug', words: 'handled' },
  skipped: { verdict: 'skipped', level: 'debug', words: 'skipped' },
  dead: { verdict: 'dead', level: 'error', words: 'dead letter: see npx kit explain' },
  ready: { verdict: 'retry', level: 'warn', words: 'failed, and will be tried again: see npx kit explain' },
} as const;

export interface AttemptLog {
  log: Logger;
  tellsWhy?: boolean;
  seldom?: Seldom;
}

export interface Ended {
  claim: Claim;
  handler: Loaded;
  /** Null where `ctx.complete` has settled it. */
  settlement: Settlement | null;
  attempt: Attempt;
  ms: number;
}

/** One line an attempt, but in a flood. A lane is told by its number: its name may hold a phone number. */
export function logEnd({ log, tellsWhy, seldom }: AttemptLog, ended: Ended, how = ''): void {
  const { claim, handler, settlement, attempt, ms } = ended;
  const { verdict, level, words } = VERDICTS[settlement?.state ?? 'done'];
  if (!log.isLevelEnabled(level)) return;
  const more = level === 'debug' || !seldom ? {} : seldom(`${verdict} ${handler.name}`);
  if (!more) return;
  const { key, type, origin } = claim.event;
  const why = tellsWhy && settlement?.error ? { why: settlement.error } : {};
  const task = { handler: handler.name, lane: claim.lane, attempt: claim.attempt, late: claim.late };
  const unproven = claim.unproven ? { unproven: true } : {};
  log[level](
    { key, type, origin, ...task, ...unproven, verdict, ms, ...attempt.thrown(), ...why, ...more },
    `${how}${words}`,
  );
}
