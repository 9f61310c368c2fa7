// The state role of the store: single values that the processes keep, and counters.
import type { Cursor } from '../wire/cursor.ts';
import type { Counts, StateKey, StateValue } from './ingest.ts';
import type { Ahead, Crash, KeptHealth, Receipts, Refusal, ReplayRun, ReplayState, VerifyAccount } from './keep.ts';
import type { Reloaded } from './processes.ts';

/** Values that one process keeps and others read. Null: it was never kept. */
export interface KeptState {
  watermark: Cursor | null;
  /** The cursor at which replay begins if there is no watermark. */
  begins_at: Cursor | null;
  /** When the first delivery set `begins_at`, Unix milliseconds. Null: something else set it. */
  anchored_at: number | null;
  /** `from`: the watermark that deliveries last proved too high. `to`: what it was lowered to. */
  lowered: Ahead | null;
  /** The times of the last calls of ReplayEvents, Unix milliseconds. */
  calls: number[] | null;
  /** The state of reconciliation that was noted last. */
  replay: ReplayState | null;
  /** The last reconciliation runs, newest first. */
  replay_runs: ReplayRun[];
  /** The number of the last event that was compared with replay. */
  compared: number;
  /** The types that replay did not show. */
  blind: string[] | null;
  /** Counters of the last minutes. */
  snapshots: { at: number; counters: Record<string, number> }[] | null;
  /** The last crashes, newest first. The main process writes them. */
  crashes: Crash[];
  /** The result of `npx kit verify`. */
  verify: VerifyAccount | null;
  /** The last time that somebody asked for a reconciliation, Unix milliseconds; 0: never. */
  reconcile_asked: number;
  /** The marks by which the pruner measures the age of events. */
  receipts: Receipts | null;
  /** The last refusals by cause. */
  refusals: Record<string, Refusal[]>;
  /** The number of the last request for a reload; 0: none. */
  reload_asked: number;
  /** The outcome of the last reload. */
  reloaded: Reloaded | null;
}

export interface StateStore {
  get<Name extends keyof KeptState>(name: Name): Promise<KeptState[Name]>;
  /** Adds to counters and sets state. Also used to test whether the store can be written. */
  note(counts: Counts, state?: Partial<Record<StateKey, StateValue>>): Promise<void>;
  /** Delivery health, as an earlier process stored it. */
  books(): Promise<KeptHealth>;
}

const CURSORS = new Set<keyof KeptState>(['watermark', 'begins_at']);
const DEFAULTS: Partial<KeptState> = {
  replay_runs: [],
  crashes: [],
  compared: 0,
  reconcile_asked: 0,
  refusals: {},
  reload_asked: 0,
};

/** Cursors are kept as they are. Other texts are JSON documents. */
export function isCursor(name: keyof KeptState): boolean {
  return CURSORS.has(name);
}

/** The typed value of what the store keeps under this name. */
export function keptOf<Name extends keyof KeptState>(name: Name, value: StateValue): KeptState[Name] {
  const known: unknown = typeof value === 'string' && !isCursor(name) ? JSON.parse(value) : value;
  return (known ?? DEFAULTS[name] ?? null) as KeptState[Name];
}
