// Can the store be written? The main process finds out by its own writes, and raises the alarm from memory: who cannot
// write can hardly write that down.
import type { Held } from './board.ts';
import { iso, type Clock } from '../base/clock.ts';
import { FULL, remedyOf } from '../store/sqlite/fault.ts';
import { StoreError, type Store } from '../store/store.ts';

/** A store that fails for a moment is busy, no more. */
const PATIENCE_MS = 2_000;
/** It is over when nothing has failed for so long. */
const CALM_MS = 5_000;
const FAILURES_ALLOWED = 15;
/** With this much left on its disk, a store is no longer full. */
const ROOM_BYTES = 16 * 1024 * 1024;

type Writes = Pick<Store, 'accept' | 'sync' | 'note' | 'beat'>;
type Verb = keyof Writes;

interface Fault {
  /** Undefined: it does not fail, it does not end. */
  error: StoreError | undefined;
  after: number;
  since: number;
}

/** What the alarm tells besides. */
export interface Around {
  /** Deliveries that wait for their commit. */
  waiting: number;
  /** Authentic deliveries in a row that were not answered with 2xx. */
  failureRun: number;
  /** The process that holds the store's write lock. */
  writer: () => number | undefined;
  /** Replay brings what is missed. */
  recovers: boolean;
}

export interface StoreWatch {
  /** The same writes, watched. */
  writes: Writes;
  failing(): boolean;
  /** For how long signs of life could not be written; 0 where they can. */
  silentMs(): number;
  /** The last delivery could not be committed, and since then none came: whether one can be is tried with an empty one. */
  retry(freeBytes: () => number): Promise<void>;
  /** A delivery was answered with 503. */
  refused(): void;
  /** The alarm that holds now, if any. */
  judge(around: Around): Map<string, Held>;
}

export function watchStore(store: Writes, clock: Clock): StoreWatch {
  const faults = new Map<Verb, Fault>();
  const begun = new Map<Verb, Fault>();
  let up: { code: string; since: number; refused: number; codes: Set<string>; fault: Fault } | undefined;
  let calmAfter: number | null = null;

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

  /** The one that has lasted longest. */
  function worst(): Fault | undefined {
    const slow = [...begun.values()].filter(({ after }) => clock.monotonic() - after > PATIENCE_MS);
    return [...faults.values(), ...slow].toSorted((a, b) => a.after - b.after)[0];
  }

  function note(): void {
    const fault = worst();
    if (!fault) {
      calmAfter ??= clock.monotonic();
      if (clock.monotonic() - calmAfter >= CALM_MS) up = undefined;
      return;
    }
    calmAfter = null;
    const definite = fault.error?.code === 'replaced';
    if (!up && !definite && clock.monotonic() - fault.after < PATIENCE_MS) return;
    const code = codeOf(fault);
    const before = up ?? { code, since: fault.since, refused: 0, codes: new Set<string>() };
    before.codes.add(code);
    up = { ...before, code, fault };
  }

  const writes: Writes = {
    // An event that is committed and synced proves all; the others may write nothing, or not sync it.
    accept: (batch) => watched('accept', batch.readings.length > 0, () => store.accept(batch)),
    sync: () => watched('accept', true, () => store.sync()),
    note: (...given) => watched('note', false, () => store.note(...given)),
    beat: (...given) => watched('beat', false, () => store.beat(...given)),
  };

  return {
    writes,
    failing: () => worst() !== undefined,
    silentMs() {
      const fault = faults.get('beat');
      return fault ? clock.monotonic() - fault.after : 0;
    },
    async retry(freeBytes) {
      const fault = faults.get('accept');
      // Nothing finds its place on a full disk as well.
      if (!fault || (FULL.test(codeOf(fault)) && freeBytes() < ROOM_BYTES)) return;
      await writes.accept({ readings: [], now: clock.now() }).catch(ignoreStore);
    },
    refused() {
      if (up) up.refused++;
    },
    judge(around) {
      note();
      if (!up) return new Map();
      const { code, since, refused, codes, fault } = up;
      const level = refused === 0 ? 1 : 1 + String(refused).length;
      // A disk that is full also keeps locks: what was told already is no news.
      const held = { level, news: codes.size };
      if (code === 'replaced')
        return new Map([['store_replaced', { level: 1, news: 0, detail: replaced(fault, since) }]]);
      const deliveries = `${around.waiting} deliveries wait, ${refused} were answered with 503${switchingOff(around)}`;
      const detail = `nothing can be written to the store since ${iso(since)} (${code}${blame(code, around)}): ${deliveries}. ${remedyFor(code)}. What is delivered meanwhile comes again`;
      return new Map([['store_unwritable', { ...held, detail }]]);
    },
  };
}

async function ignoreStore(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
}

function codeOf({ error }: Fault): string {
  if (!error) return 'a write does not end';
  if (error.code === 'busy') return 'locked';
  const { cause } = error;
  const code = cause instanceof Error ? (cause as { code?: unknown }).code : undefined;
  return error.code === 'unwritable' && typeof code === 'string' ? code : error.code;
}

function blame(code: string, { writer }: Around): string {
  const pid = code === 'locked' ? writer() : undefined;
  return pid === undefined ? '' : ` by process ${pid}`;
}

/** At this many failures in a row the service switches the webhook off. */
function switchingOff({ failureRun, recovers }: Around): string {
  if (failureRun < FAILURES_ALLOWED) return `; at ${FAILURES_ALLOWED} in a row the service switches the webhook off`;
  const missed = recovers ? 'replay brings what it missed' : 'what it missed stays missing';
  return `. After ${failureRun} failures in a row the service has switched the webhook off: enable it there as well; ${missed}`;
}

function remedyFor(code: string): string {
  if (code === 'locked') return 'End the process that holds the lock: a copy, a SQLite shell, a handler that spins';
  return remedyOf(code);
}

function replaced({ error }: Fault, since: number): string {
  return `another file lies in the place of the store since ${iso(since)}: nothing is taken any more, deliveries get 503. ${error?.message ?? ''}. If a file .replaced-… lies beside the store, it holds what was accepted until then, and restore takes it. What is delivered meanwhile comes again`;
}
