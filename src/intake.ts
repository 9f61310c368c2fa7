// The one door: everything that becomes an event passes here. What arrives together commits together, and the answer
// follows the commit. It waits out a store that is locked or failing for as long as a delivery can wait, and no longer.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import type { Accepted, Counts, EventStore, Fact, FactValue } from './store/events-store.ts';
import { StoreError } from './store/store.ts';
import type { Reading } from './wire/event.ts';

/** The service waits 10 s for an answer (contract 6.3). */
export const PATIENCE_MS = 8_000;
/** The largest group: one transaction must not outlast a neighbour's patience with the lock. */
const GROUP = 256;
const RETRY_MS = { first: 1, most: 100 };
/** A store that has failed for this long is not ready. */
const READY_MS = 1_000;

/** Nothing durable could be written in time. */
export class Unavailable extends Error {
  constructor(cause: unknown) {
    super('the store could not be written in time', { cause });
    this.name = 'Unavailable';
  }
}

export interface Intake {
  /** Resolves once the event, or the bytes of what is none, are on disk. Throws Unavailable. */
  accept(reading: Reading): Promise<Accepted>;
  /** Counters and facts ride along with the next commit. */
  count(counts: Counts): void;
  setFact(name: Fact, value: FactValue): void;
  /** Writes what was counted; for the quiet times. Also finds out whether the store can be written again. */
  probe(): Promise<void>;
  /** Whether deliveries can be committed. */
  ready(): boolean;
  /** How many wait for their commit. */
  waiting(): number;
}

interface Waiting {
  reading: Reading;
  since: number;
  resolve: (accepted: Accepted) => void;
  reject: (error: Unavailable) => void;
}

interface Noted {
  counts: Counts;
  facts: Partial<Record<Fact, FactValue>>;
}

export function createIntake({
  store,
  clock,
  onCommit = () => {},
  onFault = () => {},
}: {
  store: EventStore;
  clock: Clock;
  onCommit?: () => void;
  onFault?: (error: StoreError) => void;
}): Intake {
  const waiting: Waiting[] = [];
  let counts: Counts = {};
  let facts: Noted['facts'] = {};
  let committing = false;
  let failingSince: number | null = null;

  async function commitAll(): Promise<void> {
    committing = true;
    let tries = 0;
    for (let delay = RETRY_MS.first; waiting.length > 0;) {
      const error = await commit(waiting.slice(0, GROUP));
      if (error === undefined) {
        delay = RETRY_MS.first;
        tries = 0;
        continue;
      }
      fail(error);
      expire(error);
      // Not blocked: what arrives meanwhile joins the group.
      await sleep(delay);
      // Another process of the kit is done in a moment; a stranger's lock lasts.
      if (++tries > 10) delay = Math.min(delay * 1.5, RETRY_MS.most);
    }
    committing = false;
  }

  async function commit(group: Waiting[]): Promise<StoreError | undefined> {
    const taken = take();
    try {
      const readings = group.map(({ reading }) => reading);
      const results = await store.accept({ readings, now: clock.now(), ...taken });
      failingSince = null;
      waiting.splice(0, group.length);
      for (const [index, accepted] of results.entries()) group[index]?.resolve(accepted);
      onCommit();
      return undefined;
    } catch (error) {
      putBack(taken);
      if (error instanceof StoreError) return error;
      for (const { reject } of waiting.splice(0)) reject(new Unavailable(error));
      throw error;
    }
  }

  /** Those that have waited as long as a delivery can. They are in order of arrival. */
  function expire(error: StoreError): void {
    const now = clock.now();
    const patient = waiting.findIndex(({ since }) => now - since < PATIENCE_MS);
    for (const { reject } of waiting.splice(0, patient === -1 ? waiting.length : patient))
      reject(new Unavailable(error));
  }

  function fail(error: StoreError): void {
    failingSince ??= clock.now();
    if (error.code !== 'busy' || clock.now() - failingSince > READY_MS) onFault(error);
  }

  function add(more: Counts): void {
    for (const [name, value] of Object.entries(more)) {
      counts[name as keyof Counts] = (counts[name as keyof Counts] ?? 0) + (value ?? 0);
    }
  }

  function take(): Noted {
    const taken = { counts, facts };
    counts = {};
    facts = {};
    return taken;
  }

  /** What was set meanwhile is newer. */
  function putBack(taken: Noted): void {
    add(taken.counts);
    facts = { ...taken.facts, ...facts };
  }

  return {
    accept: (reading) =>
      new Promise((resolve, reject) => {
        waiting.push({ reading, since: clock.now(), resolve, reject });
        // After all sockets that are ready have been read, so that what arrived together is one commit.
        if (waiting.length === 1 && !committing) setImmediate(() => void commitAll());
      }),
    count: add,
    setFact(name, value) {
      facts[name] = value;
    },
    async probe() {
      if (committing) return;
      const taken = take();
      try {
        await store.note(taken.counts, taken.facts);
        failingSince = null;
      } catch (error) {
        putBack(taken);
        if (!(error instanceof StoreError)) throw error;
        fail(error);
      }
    },
    waiting: () => waiting.length,
    ready: () => failingSince === null || clock.now() - failingSince < READY_MS,
  };
}
