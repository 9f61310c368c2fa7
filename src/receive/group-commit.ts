// The one door: everything that becomes an event passes here. What arrives together commits together, and the answer
// follows the commit. It waits out a store that is locked or failing for as long as a delivery can wait, and no longer.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import type { Accepted, Counts, IngestStore, StateKey, StateValue } from '../store/ingest.ts';
import { StoreError, Unsynced } from '../store/store.ts';
import type { Reading } from '../wire/event.ts';

/** The service waits 10 s for an answer (contract 6.3). */
export const PATIENCE_MS = 8_000;
/** The largest group: one transaction must not outlast a neighbour's patience with the lock. */
const GROUP = 256;
const RETRY_MS = { first: 1, most: 100 };
/** A store that has failed for this long is not ready. */
const READY_MS = 1_000;
/** Between two looks whether a delivery has waited too long. */
const EXPIRE_MS = 50;

/** Nothing durable could be written in time. */
export class Unavailable extends Error {
  constructor(cause: unknown) {
    super('the store could not be written in time', { cause });
    this.name = 'Unavailable';
  }
}

export interface GroupCommit {
  /** Resolves once the event, or the bytes of what is none, are on disk. Throws Unavailable. */
  accept(reading: Reading): Promise<Accepted>;
  /** Counters and facts ride along with the next commit. */
  count(counts: Counts): void;
  setState(name: StateKey, value: StateValue): void;
  /** Writes what was counted; for the quiet times. Also finds out whether the store can be written again. */
  probe(): Promise<void>;
  /** Whether deliveries can be committed. */
  ready(): boolean;
  /** The store has lost its place, and takes nothing until the kit was stopped. */
  replaced(): boolean;
  /** How many wait for their commit. */
  waiting(): number;
}

interface Waiting {
  reading: Reading;
  /** By the monotonic clock. */
  since: number;
  /** It has been answered. */
  over: boolean;
  resolve: (accepted: Accepted) => void;
  reject: (error: Unavailable) => void;
}

/** What is committed, and not certain to be on disk yet. */
interface Committed {
  group: Waiting[];
  accepted: Accepted[];
}

interface Noted {
  counts: Counts;
  facts: Partial<Record<StateKey, StateValue>>;
}

export function createGroupCommit({
  store,
  clock,
  onCommit = () => {},
  onFault = () => {},
}: {
  store: IngestStore;
  clock: Clock;
  onCommit?: () => void;
  onFault?: (error: StoreError) => void;
}): GroupCommit {
  const waiting: Waiting[] = [];
  let counts: Counts = {};
  let facts: Noted['facts'] = {};
  let committing = false;
  let unsynced: Committed | undefined;
  /** By the monotonic clock, as all durations here. */
  let failingSince: number | null = null;
  /** When the store was last asked for something that it has not answered yet. */
  let askedSince: number | null = null;
  let replaced = false;
  let lastError: StoreError | undefined;

  async function commitAll(): Promise<void> {
    committing = true;
    // A disk may hang, and answer nothing at all.
    const expiring = setInterval(expire, EXPIRE_MS);
    await commitWaiting().finally(() => clearInterval(expiring));
    committing = false;
  }

  async function commitWaiting(): Promise<void> {
    let tries = 0;
    for (let delay = RETRY_MS.first; waiting.length > 0;) {
      askedSince = clock.monotonic();
      const error = await (unsynced?.group.some(({ over }) => !over)
        ? syncAgain(unsynced)
        : commit(waiting.slice(0, GROUP)));
      askedSince = null;
      if (error === undefined) {
        delay = RETRY_MS.first;
        tries = 0;
        continue;
      }
      fail(error);
      expire();
      // Not blocked: what arrives meanwhile joins the group.
      await sleep(delay);
      // Another process of the kit is done in a moment; a stranger's lock lasts.
      if (++tries > 10) delay = Math.min(delay * 1.5, RETRY_MS.most);
    }
  }

  async function commit(group: Waiting[]): Promise<StoreError | undefined> {
    unsynced = undefined;
    const taken = take();
    try {
      const readings = group.map(({ reading }) => reading);
      answer({ group, accepted: await store.accept({ readings, now: clock.now(), ...taken }) });
      return undefined;
    } catch (error) {
      if (error instanceof Unsynced) {
        // What was committed must not be counted twice: from now on only its sync is tried.
        unsynced = { group, accepted: error.accepted };
        return error;
      }
      putBack(taken);
      if (error instanceof StoreError) return error;
      reject(waiting.splice(0), error);
      throw error;
    }
  }

  async function syncAgain(committed: Committed): Promise<StoreError | undefined> {
    try {
      await store.sync();
    } catch (error) {
      if (error instanceof StoreError) return error;
      reject(waiting.splice(0), error);
      throw error;
    }
    unsynced = undefined;
    answer(committed);
    return undefined;
  }

  function answer({ group, accepted }: Committed): void {
    failingSince = null;
    // They are the first that wait; those of them that have waited too long are gone.
    const waited = group.filter(({ over }) => !over).length;
    waiting.splice(0, waited);
    for (const [index, one] of accepted.entries()) {
      const delivery = group[index];
      if (!delivery || delivery.over) continue;
      delivery.over = true;
      if (one.verdict === 'unkept') delivery.reject(new Unavailable(new Error('it fails by itself, see the log')));
      else delivery.resolve(one);
    }
    onCommit();
  }

  function reject(deliveries: Waiting[], cause: unknown): void {
    for (const delivery of deliveries) {
      delivery.over = true;
      delivery.reject(new Unavailable(cause));
    }
  }

  /** Those that have waited as long as a delivery can. They are in order of arrival. */
  function expire(): void {
    const now = clock.monotonic();
    const patient = replaced ? -1 : waiting.findIndex(({ since }) => now - since < PATIENCE_MS);
    if (patient === 0) return;
    reject(waiting.splice(0, patient === -1 ? waiting.length : patient), lastError);
  }

  function fail(error: StoreError): void {
    lastError = error;
    replaced ||= error.code === 'replaced';
    failingSince ??= clock.monotonic();
    if (error.code !== 'busy' || clock.monotonic() - failingSince > READY_MS) onFault(error);
  }

  function isFailing(since: number | null): boolean {
    return since !== null && clock.monotonic() - since >= READY_MS;
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
      new Promise((resolve, refuse) => {
        waiting.push({ reading, since: clock.monotonic(), over: false, resolve, reject: refuse });
        // After all sockets that are ready have been read, so that what arrived together is one commit.
        if (waiting.length === 1 && !committing) setImmediate(() => void commitAll());
      }),
    count: add,
    setState(name, value) {
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
    ready: () => !replaced && !isFailing(failingSince) && !isFailing(askedSince),
    replaced: () => replaced,
  };
}
