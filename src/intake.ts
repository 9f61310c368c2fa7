// The one door: everything that becomes an event passes here. What arrives together commits together, and the answer
// follows the commit. It waits out a store that is locked or failing for as long as a delivery can wait, and no longer.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import { StoreError, type Accepted, type Counts, type EventStore, type Fact, type FactValue, type Reading } from './store/store.ts';

/** The service waits 10 s for an answer (contract 6.3). */
export const PATIENCE_MS = 8_000;
/** The largest group: one transaction must not outlast a neighbour's patience with the lock. */
const GROUP = 256;
const RETRY_MS = { first: 5, most: 100 };
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
  /** Counters ride along with the next commit. */
  count(counts: Counts): void;
  setFact(name: Fact, value: FactValue): void;
  /** Writes what was counted; for the quiet times. Also finds out whether the store can be written again. */
  probe(): Promise<void>;
  /** Whether deliveries can be committed. */
  ready(): boolean;
}

interface Waiting {
  reading: Reading;
  since: number;
  resolve(accepted: Accepted): void;
  reject(error: Unavailable): void;
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
  let facts: Partial<Record<Fact, FactValue>> = {};
  let committing = false;
  let failingSince: number | null = null;

  async function commitAll(): Promise<void> {
    committing = true;
    while (waiting.length > 0) await commit(waiting.splice(0, GROUP));
    committing = false;
  }

  async function commit(group: Waiting[]): Promise<void> {
    let left = group;
    for (let delay = RETRY_MS.first; ; delay = Math.min(delay * 2, RETRY_MS.most)) {
      const taken = counts;
      counts = {};
      try {
        assertInPlace();
        const readings = left.map(({ reading }) => reading);
        const results = await store.accept({ readings, now: clock.now(), counts: taken });
        failingSince = null;
        for (const [index, accepted] of results.entries()) left[index]?.resolve(accepted);
        onCommit();
        return;
      } catch (error) {
        add(taken);
        if (!(error instanceof StoreError)) {
          for (const { reject } of left) reject(new Unavailable(error));
          throw error;
        }
        fail(error);
        left = left.filter((one) => keepsWaiting(one, error));
        if (left.length === 0) return;
      }
      await sleep(delay * (0.5 + Math.random() / 2));
    }
  }

  function keepsWaiting({ since, reject }: Waiting, error: StoreError): boolean {
    if (clock.now() - since < PATIENCE_MS) return true;
    reject(new Unavailable(error));
    return false;
  }

  function fail(error: StoreError): void {
    failingSince ??= clock.now();
    onFault(error);
  }

  function assertInPlace(): void {
    if (!store.inPlace()) throw new StoreError('unwritable', 'the store file was replaced or deleted while open');
  }

  function add(more: Counts): void {
    for (const [name, value] of Object.entries(more)) {
      counts[name as keyof Counts] = (counts[name as keyof Counts] ?? 0) + (value ?? 0);
    }
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
      const taken = { counts, facts };
      counts = {};
      facts = {};
      try {
        assertInPlace();
        await store.note(taken.counts, taken.facts);
        failingSince = null;
      } catch (error) {
        add(taken.counts);
        facts = { ...taken.facts, ...facts };
        if (!(error instanceof StoreError)) throw error;
        fail(error);
      }
    },
    ready: () => failingSince === null || clock.now() - failingSince < READY_MS,
  };
}
