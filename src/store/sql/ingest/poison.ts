// Writes a failing batch reading by reading, each in a savepoint. A reading that fails by itself is quarantined. If
// several different readings fail in a row, the store is at fault.
import { createHash } from 'node:crypto';
import type { Reading } from '../../../wire/event.ts';
import type { Accepted } from '../../ingest.ts';
import { StoreError } from '../../store.ts';
import type { Session } from '../session.ts';

/** This many different readings in a row mean that the store is at fault. */
const SUSPICIOUS = 3;
/** The reason in quarantine begins with these words if the reading was readable but could not be stored. */
export const POISONED = 'poisoned: ';

/** Digests of the readings that failed since the last success. Shared by all connections. */
export type Failing = Set<string>;

export interface Steps {
  /** Writes the reading and everything that follows from it. */
  take: (reading: Reading) => Promise<Accepted>;
  /** Quarantines the reading's bytes, with the reason. */
  keep: (reading: Reading, reason: string) => Promise<Accepted>;
}

export function createPoison(session: Session, failing: Failing) {
  const { path, faultOf, codeOf } = session;

  async function failureOf(work: () => Promise<void>): Promise<unknown> {
    try {
      await session.write(work);
      return undefined;
    } catch (error) {
      const fault = faultOf(error);
      if (fault) throw fault;
      // Some errors of SQLite undo more than their savepoint.
      if (!session.inTransaction()) throw unwritable(error);
      return error ?? new Error('nothing was thrown');
    }
  }

  /** Tries the reading twice and returns its error code. If the two errors differ, the store is at fault. */
  async function provenCause(work: () => Promise<void>): Promise<string | undefined> {
    const first = await failureOf(work);
    if (first === undefined) return undefined;
    const second = await failureOf(work);
    if (second === undefined) return undefined;
    if (codeOf(first) !== codeOf(second)) throw unwritable(second);
    return codeOf(second);
  }

  function unwritable(error: unknown): StoreError {
    const words = `${path} cannot be written: ${codeOf(error)}: see its disk and the log`;
    return faultOf(error) ?? new StoreError('unwritable', words, error);
  }

  return {
    /**
     * Runs the work in a savepoint. If the work itself fails, it is undone, and its error is returned. Undefined: it
     * succeeded. Throws StoreError if the store is at fault.
     */
    failureOf,
    unwritable,
    /** Call within a transaction. Throws StoreError if the store is at fault, or an item of a page cannot be kept. */
    async apart(readings: Reading[], isPage: boolean, { take, keep }: Steps): Promise<Accepted[]> {
      const results: Accepted[] = [];
      let row: { at: number; reading: Reading; code: string }[] = [];

      async function endRow(): Promise<void> {
        for (const { at, reading, code } of row) {
          results[at] = { verdict: 'unkept' };
          if (failing.size >= SUSPICIOUS) continue;
          await failureOf(async () => {
            results[at] = await keep(reading, `${POISONED}${code}`);
          });
        }
        row = [];
      }

      for (const [at, reading] of readings.entries()) {
        const code = await provenCause(async () => {
          results[at] = await take(reading);
        });
        if (code !== undefined) {
          failing.add(bytesDigestOf(reading).toString('hex'));
          row.push({ at, reading, code });
          continue;
        }
        await endRow();
        failing.clear();
      }
      await endRow();
      const unkept = results.filter(({ verdict }) => verdict === 'unkept').length;
      if (unkept > 0 && (isPage || unkept === results.length))
        throw new StoreError('unwritable', `${path} cannot be written: one event after the other fails`);
      return results;
    },
  };
}

/** The digest includes the cursor: the same bytes at another cursor are another event. */
export function bytesDigestOf(reading: Reading): Buffer {
  const { cursor, body } = 'event' in reading ? reading.event : reading.unreadable;
  return (
    createHash('sha256')
      // A separator, because cursor 2 with the bytes `23` is not cursor 22 with the bytes `3`.
      .update(`${cursor ?? ''}:`)
      .update(body)
      .digest()
  );
}
