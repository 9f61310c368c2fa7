// Deliveries that arrive together share one commit, and are answered after it. While the store is locked or failing,
// the commit is retried until the deliveries have waited too long.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import type { Accepted, Batch, IngestStore } from '../store/ingest.ts';
import { addTo, type StateStore, type Counter, type Counts, type StateKey, type StateValue } from '../store/state.ts';
import { StoreError, Unsynced } from '../store/store.ts';
import type { Reading } from '../wire/event.ts';

/** A delivery waits at most this long for its commit. The service waits 10 s for an answer (contract 6.3). */
export const DEADLINE_MS = 8_000;
/** Maximum number of deliveries in one commit. Other processes wait for the store's lock during a commit. */
const GROUP = 256;
/** Maximum bytes of a commit with several deliveries, so that a slow network to a server carries it in time. */
const GROUP_BYTES = 2 ** 22;
const LONGEST_PAUSE_MS = 100;
/** A store that has failed for this long is not ready. */
const READY_MS = 1_000;
/** Interval of the search for deliveries that have waited too long. */
const EXPIRE_MS = 50;

/** The delivery could not be made durable in time. */
export class Unavailable extends Error {
  constructor(cause: unknown) {
    super('not committed in time', { cause });
    this.name = 'Unavailable';
  }
}

interface Pending {
  reading: Reading;
  /** The time of arrival, in monotonic milliseconds. */
  since: number;
  answered: boolean;
  resolve: (accepted: Accepted) => void;
  reject: (error: Unavailable) => void;
}

interface Committed {
  group: Pending[];
  accepted: Accepted[];
}

type Notes = Required<Pick<Batch, 'counts' | 'state'>>;

/** The methods of the store that deliveries need. */
export type DeliveryStore = IngestStore & Pick<StateStore, 'note'>;

interface Options {
  store: DeliveryStore;
  clock: Clock;
  onCommit?: () => void;
  onFault?: (error: StoreError) => void;
}

export type GroupCommit = ReturnType<typeof createGroupCommit>;

// oxlint-disable-next-line max-lines-per-function -- one loop over one queue: each step reads and changes both
export function createGroupCommit({ store, clock, onCommit, onFault }: Options) {
  /** In order of arrival. */
  const pending: Pending[] = [];
  /** Counters and state for the next commit. */
  let notes: Notes = { counts: {}, state: {} };
  let committing = false;
  /**
   * A group whose commit succeeded but whose sync failed. Committing it again would count its events twice, so only the
   * sync is retried.
   */
  let unsynced: Committed | undefined;
  /** When the store began to fail, in monotonic milliseconds. Null: it works. */
  let failingSince: number | null = null;
  /** When the present call to the store began, in monotonic milliseconds. Null: no call is under way. */
  let askedSince: number | null = null;
  let replaced = false;
  let lastError: StoreError | undefined;

  async function commitAll(): Promise<void> {
    committing = true;
    // A timer is needed because a call to the store does not return while the disk hangs.
    const expiring = setInterval(expire, EXPIRE_MS);
    try {
      for (let tries = 0; pending.length > 0;) {
        const error = await commitNext();
        if (error) {
          fail(error);
          expire();
          // Deliveries that arrive during this pause join the group. The first pauses are short, because the kit's own
          // locks are short. Other programs may hold the lock longer, so the pauses grow.
          await sleep(Math.min(1.5 ** Math.max(0, tries++ - 10), LONGEST_PAUSE_MS));
        } else tries = 0;
      }
    } finally {
      clearInterval(expiring);
    }
    committing = false;
  }

  /** Returns the error if the store is at fault. */
  async function commitNext(): Promise<StoreError | undefined> {
    askedSince = clock.monotonic();
    try {
      const again = unsynced?.group.some(({ answered }) => !answered) ? unsynced : undefined;
      answer(again ? await syncAgain(again) : await commit(nextGroup()));
      return undefined;
    } catch (error) {
      if (error instanceof StoreError) return error;
      reject(pending.splice(0), error);
      throw error;
    } finally {
      askedSince = null;
    }
  }

  function nextGroup(): Pending[] {
    let bytes = 0;
    const fits = ({ reading }: Pending): boolean => {
      bytes += ('event' in reading ? reading.event : reading.unreadable).body.length;
      return bytes <= GROUP_BYTES;
    };
    const more = pending.slice(0, GROUP).findIndex((one, n) => !fits(one) && n > 0);
    return pending.slice(0, more === -1 ? GROUP : more);
  }

  async function commit(group: Pending[]): Promise<Committed> {
    unsynced = undefined;
    const taken = take();
    try {
      const readings = group.map(({ reading }) => reading);
      return { group, accepted: await store.accept({ readings, now: clock.now(), ...taken }) };
    } catch (error) {
      if (error instanceof Unsynced) unsynced = { group, accepted: error.accepted };
      else putBack(taken);
      throw error;
    }
  }

  async function syncAgain(committed: Committed): Promise<Committed> {
    await store.sync();
    unsynced = undefined;
    return committed;
  }

  function answer({ group, accepted }: Committed): void {
    failingSince = null;
    // The group's unanswered deliveries are at the head of the queue. The others were rejected and have left the queue.
    pending.splice(0, group.filter(({ answered }) => !answered).length);
    for (const [index, one] of accepted.entries()) settle(group[index], one);
    onCommit?.();
  }

  /** Rejects the deliveries that have waited too long. */
  function expire(): void {
    const now = clock.monotonic();
    const inTime = replaced ? -1 : pending.findIndex(({ since }) => now - since < DEADLINE_MS);
    reject(pending.splice(0, inTime === -1 ? pending.length : inTime), lastError);
  }

  function fail(error: StoreError): void {
    lastError = error;
    replaced ||= error.code === 'replaced';
    failingSince ??= clock.monotonic();
    if (error.code !== 'busy' || clock.monotonic() - failingSince > READY_MS) onFault?.(error);
  }

  function take(): Notes {
    const taken = notes;
    notes = { counts: {}, state: {} };
    return taken;
  }

  function putBack(taken: Notes): void {
    add(notes.counts, taken.counts);
    // State that was set meanwhile is newer, so it wins.
    notes.state = { ...taken.state, ...notes.state };
  }

  function isLong(since: number | null): boolean {
    return since !== null && clock.monotonic() - since >= READY_MS;
  }

  return {
    /** Resolves once the event, or the bytes of an unreadable one, are on disk. Throws Unavailable. */
    accept: (reading: Reading): Promise<Accepted> =>
      new Promise((resolve, refuse) => {
        pending.push({ reading, since: clock.monotonic(), answered: false, resolve, reject: refuse });
        // The commit starts after all ready sockets have been read, so that deliveries that arrived together share it.
        if (pending.length === 1 && !committing) setImmediate(() => void commitAll());
      }),
    /** `count` and `setState` write nothing themselves: the next commit writes the values. */
    count: (counts: Counts): void => add(notes.counts, counts),
    setState: (name: StateKey, value: StateValue): void => void (notes.state[name] = value),
    /** Writes counters and state without a delivery, and so finds out whether the store can be written again. */
    async probe(): Promise<void> {
      if (committing) return;
      const taken = take();
      try {
        await store.note(taken.counts, taken.state);
        failingSince = null;
      } catch (error) {
        putBack(taken);
        if (!(error instanceof StoreError)) throw error;
        fail(error);
      }
    },
    /** The number of deliveries that wait for their commit. */
    waiting: (): number => pending.length,
    ready: (): boolean => !replaced && !isLong(failingSince) && !isLong(askedSince),
    /** The store's file was replaced or deleted. No delivery is committed until the kit is restarted. */
    replaced: (): boolean => replaced,
  };
}

function settle(delivery: Pending | undefined, accepted: Accepted): void {
  if (!delivery || delivery.answered) return;
  if (accepted.verdict === 'unkept')
    return reject([delivery], new Error('the event itself makes the store fail; see the log'));
  delivery.answered = true;
  delivery.resolve(accepted);
}

function reject(deliveries: Pending[], cause: unknown): void {
  for (const delivery of deliveries) {
    delivery.answered = true;
    delivery.reject(new Unavailable(cause));
  }
}

function add(counts: Counts, more: Counts): void {
  for (const [name, value] of Object.entries(more) as [Counter, number][]) addTo(counts, name, value);
}
