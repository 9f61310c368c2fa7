// The facts that the rules of `keep` use: the state of the store and of the main process at the last look.
import type { Crash, DeliveredType } from '../../store/keep.ts';
import type { Gap, Status } from '../../store/read.ts';
import { UNREAD } from '../../keep/view.ts';
import { magnitude, type Rule } from './rule.ts';

export interface Observation {
  /** Unix milliseconds. */
  now: number;
  /** `status.alarms` holds the alarms that were raised before this look. */
  status: Status;
  /** How much each counter has grown in the last minutes. */
  recent: Record<string, number>;
  freeBytes: number;
  /** Milliseconds without a sign of life from the process that runs handlers. */
  runDownMs: number;
  /** Event types that webhooks deliver, with the recent events of each type that no delivery brought. */
  types: DeliveredType[];
  /** Event types that replay did not show at the last check. */
  blind: string[];
  /** The watermark before and after evidence last lowered it. Null: that never happened. */
  lowered: { from: string; to: string } | null;
  /** The newest open gap. */
  gap: Gap | null;
  /** Of the newest delivery that was refused for its time: seconds ahead of our clock; negative: behind it. */
  skewSeconds: number | null;
  /** The longest failure run of the last minutes. */
  worstRun: number;
  /** The newest cause of dead letters. */
  cause: { id: number; handler: string; error: string } | null;
  /** The key of the event that was contradicted last. */
  contradicted: string | null;
  /** Crashes of the processes that run handlers, newest first. */
  crashes: Crash[];
  /** Handler files that cannot be loaded, each with the handlers that wait for it. */
  broken: { fault: string; waiting: string[] }[];
}

/** Used until the store has been read for the first time. */
export const NOTHING_SEEN: Observation = {
  now: 0,
  status: UNREAD,
  recent: {},
  freeBytes: Infinity,
  runDownMs: 0,
  types: [],
  blind: [],
  lowered: null,
  gap: null,
  skewSeconds: null,
  worstRun: 0,
  cause: null,
  contradicted: null,
  crashes: [],
  broken: [],
};

/** Fires when the counter has grown by at least `least`. Each factor of ten is a level. */
export function onCounter(counter: string, least = 1): Pick<Rule<Observation>, 'fires' | 'level'> {
  return {
    fires: (seen) => recently(seen, counter) >= least,
    level: (seen) => magnitude(recently(seen, counter)),
  };
}

export function recently({ recent }: Observation, counter: string): number {
  return recent[counter] ?? 0;
}

/** The handlers whose counter `<counter>.<handler>` has grown in the last minutes. */
export function handlersWith({ recent }: Observation, counter: string): string[] {
  return Object.keys(recent).flatMap((name) =>
    name.startsWith(`${counter}.`) && (recent[name] ?? 0) > 0 ? [name.slice(counter.length + 1)] : [],
  );
}
