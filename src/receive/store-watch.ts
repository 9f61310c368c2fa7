// Finds out whether the store can be written. The main process watches its own writes and keeps the result in memory,
// because a failing store cannot record it.
import type { IngestStore } from '../store/ingest.ts';
import type { ProcessStore } from '../store/processes.ts';
import type { StateStore } from '../store/state.ts';
import type { Clock } from '../base/clock.ts';
import { orNone } from '../store/or-none.ts';
import { DISK_FULL, StoreError, type Store } from '../store/store.ts';

/** A store that has failed for less than this is only busy. */
const PATIENCE_MS = 2_000;
/** The trouble is over when no write has failed for this long. */
const WELL_MS = 5_000;
/** After a full disk, a write is tried only when this much space is free. */
const ROOM_BYTES = 16 * 1024 * 1024;

type Writes = IngestStore & Pick<StateStore, 'note'> & Pick<ProcessStore, 'beat'>;
type Watched = Pick<Store, 'ingest' | 'state' | 'processes'>;
type Verb = keyof Writes;

interface Fault {
  /** Undefined: the write has not failed, but it does not end. */
  error: StoreError | undefined;
  after: number;
  since: number;
}

/** The trouble as the failed writes show it. */
export interface Trouble {
  /** A code of SQLite or of the system, `locked`, `replaced`, or a description. */
  code: string;
  message: string;
  /** Unix milliseconds. */
  since: number;
  /** The number of different codes since the trouble began. */
  codes: number;
  /** The number of deliveries that were answered with 503 since the trouble began. */
  refused: number;
}

/** The trouble, together with the state of the main process. */
export interface WriteTrouble extends Trouble {
  /** The number of deliveries that wait for their commit. */
  waiting: number;
  /** The number of authentic deliveries in a row that did not get a 2xx. */
  failureRun: number;
  /** The pid of the process that holds the store's write lock. Undefined: unknown. */
  writer: number | undefined;
  /** True: an API key is set, so replay fetches missed events. */
  recovers: boolean;
  /** What to do about the code. */
  remedy: string;
}

export type StoreWatch = ReturnType<typeof watchStore>;

export function watchStore(store: Watched, clock: Clock) {
  const { writes, worst, faultOf } = watchWrites(store, clock);
  let up: { fault: Fault; since: number; refused: number; codes: Set<string> } | undefined;
  let wellAfter: number | null = null;

  function update(): void {
    const fault = worst();
    if (!fault) {
      wellAfter ??= clock.monotonic();
      if (clock.monotonic() - wellAfter >= WELL_MS) up = undefined;
      return;
    }
    wellAfter = null;
    const definite = fault.error?.code === 'replaced';
    if (!up && !definite && clock.monotonic() - fault.after < PATIENCE_MS) return;
    up = { since: fault.since, refused: 0, codes: new Set(), ...up, fault };
    up.codes.add(codeOf(fault));
  }

  return {
    /** The store's write methods. Every call through them is watched. */
    writes,
    failing: (): boolean => worst() !== undefined,
    /** Milliseconds for which signs of life could not be written; 0 while they can. */
    silentMs(): number {
      const fault = faultOf('beat');
      return fault ? clock.monotonic() - fault.after : 0;
    },
    /** Tries an empty commit if the last commit failed. Call it only while no delivery waits. */
    async retry(freeBytes: () => number): Promise<void> {
      const fault = faultOf('accept');
      // An empty commit succeeds even on a full disk, so it would prove nothing.
      if (!fault || (DISK_FULL.test(codeOf(fault)) && freeBytes() < ROOM_BYTES)) return;
      await orNone(() => writes.accept({ readings: [], now: clock.now() }));
    },
    /** Call it when a delivery was answered with 503. */
    refused(): void {
      if (up) up.refused++;
    },
    trouble(): Trouble | undefined {
      update();
      if (!up) return undefined;
      const { fault, since, refused, codes } = up;
      return { code: codeOf(fault), message: fault.error?.message ?? '', since, refused, codes: codes.size };
    },
  };
}

function watchWrites(store: Watched, clock: Clock) {
  const faults = new Map<Verb, Fault>();
  const begun = new Map<Verb, Fault>();

  async function watched<Result>(verb: Verb, proves: boolean, work: () => Promise<Result>): Promise<Result> {
    const start = { error: undefined, after: clock.monotonic(), since: clock.now() };
    begun.set(verb, start);
    try {
      const result = await work();
      if (proves) faults.clear();
      else faults.delete(verb);
      return result;
    } catch (error) {
      if (error instanceof StoreError) faults.set(verb, { ...(faults.get(verb) ?? start), error });
      throw error;
    } finally {
      if (begun.get(verb) === start) begun.delete(verb);
    }
  }

  const writes: Writes = {
    // Only an event that is committed and synced clears all faults. Other writes may be empty, or are not synced.
    accept: (batch) => watched('accept', batch.readings.length > 0, () => store.ingest.accept(batch)),
    sync: () => watched('accept', true, () => store.ingest.sync()),
    note: (...given) => watched('note', false, () => store.state.note(...given)),
    beat: (...given) => watched('beat', false, () => store.processes.beat(...given)),
  };
  /** The fault that has lasted longest. A write that does not end is a fault as well. */
  const worst = (): Fault | undefined => {
    const slow = [...begun.values()].filter(({ after }) => clock.monotonic() - after > PATIENCE_MS);
    return [...faults.values(), ...slow].toSorted((a, b) => a.after - b.after)[0];
  };
  return { writes, worst, faultOf: (verb: Verb): Fault | undefined => faults.get(verb) };
}

function codeOf({ error }: Fault): string {
  if (!error) return 'a write does not end';
  if (error.code === 'busy') return 'locked';
  const { cause } = error;
  const code = cause instanceof Error ? (cause as { code?: unknown }).code : undefined;
  return error.code === 'unwritable' && typeof code === 'string' ? code : error.code;
}
