// The facts that the rules of `keep` use: the state of the store and of the main process, as it was read last.
import type { Crash, DeliveredType, Refusal } from '../../store/keep.ts';
import type { Gap, Status } from '../../store/read.ts';
import type { Backup, FailingHead } from '../../store/shown.ts';
import type { KeptState } from '../../store/state.ts';
import { UNREAD } from '../../keep/view.ts';
import type { AttemptGrowth } from '../attempt-counters.ts';
import { magnitude, type Rule } from './rule.ts';

export interface Observation {
  /** Unix milliseconds. */
  now: number;
  /** `status.alarms` holds the alarms that were raised before this observation. */
  status: Status;
  /** How much each counter has grown in the last ten minutes; counters of attempts: in the last three. */
  recent: Record<string, number>;
  attempts: AttemptGrowth;
  /** The tasks that have failed for long while the others of their lane wait, longest first. */
  stuck: FailingHead[];
  freeBytes: number;
  /** Milliseconds without a sign of life from the process that runs handlers. */
  runDownMs: number;
  /** How long instances that give signs of life have had different handlers, milliseconds. */
  differMs: number;
  /** Types that webhooks deliver, each with the number of its latest events that no delivery brought. */
  types: DeliveredType[];
  /** The last refusals for a bad signature. */
  refused: Refusal[];
  /** Types of which webhooks brought events that replay did not show. Set when `keep` last found such events. */
  blind: string[];
  /** `from`: the watermark that deliveries last proved too high. `to`: what it was lowered to. Null: there was none. */
  lowered: { from: string; to: string } | null;
  /** The newest open gap. */
  gap: Gap | null;
  /** Seconds by which the newest delivery refused for its time was ahead of our clock; negative: behind. Null: none. */
  skewSeconds: number | null;
  /** The length of the longest failure run in the last ten minutes. */
  worstRun: number;
  /** The newest group of dead letters (same handler and error pattern). Null: there are no dead letters. */
  cause: { id: number; handler: string; error: string } | null;
  /** The key of the event with the newest conflict: another arrival contradicted it. Null: no conflict. */
  contradicted: string | null;
  /** Crashes of the processes that run handlers, newest first. */
  crashes: Crash[];
  /** Paused handlers; `*`: all. */
  paused: KeptState['paused'];
  /** Null: BACKUP_DIR is not set. `dueMs`: how old the newest verified backup may become. */
  backups: { dueMs: number; ageMs: number; last: Backup | null } | null;
  /** Handler files that cannot be loaded, each with the handlers that wait for it. */
  broken: { fault: string; waiting: string[] }[];
}

/** Used until the store has been read for the first time. */
export const NOTHING_SEEN: Observation = {
  now: 0,
  status: UNREAD,
  recent: {},
  attempts: { sinceBoot: {}, thirds: [] },
  stuck: [],
  freeBytes: Infinity,
  runDownMs: 0,
  differMs: 0,
  types: [],
  refused: [],
  blind: [],
  lowered: null,
  gap: null,
  skewSeconds: null,
  worstRun: 0,
  cause: null,
  contradicted: null,
  crashes: [],
  paused: {},
  backups: null,
  broken: [],
};

/** Fires when the counter has grown by at least `least`. Each factor of ten raises the level by one. */
export function onCounter(counter: string, least = 1): Pick<Rule<Observation>, 'fires' | 'level'> {
  return {
    fires: (seen) => recently(seen, counter) >= least,
    level: (seen) => magnitude(recently(seen, counter)),
  };
}

export function recently({ recent }: Observation, counter: string): number {
  return recent[counter] ?? 0;
}

export function isPaused({ paused }: Pick<Observation, 'paused'>, handler: string): boolean {
  return '*' in paused || Object.hasOwn(paused, handler);
}

/** The handlers whose counter `<counter>.<handler>` has grown in the last minutes. */
export function handlersWith({ recent }: Observation, counter: string): string[] {
  return Object.keys(recent).flatMap((name) =>
    name.startsWith(`${counter}.`) && (recent[name] ?? 0) > 0 ? [name.slice(counter.length + 1)] : [],
  );
}
