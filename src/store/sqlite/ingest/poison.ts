// A group that cannot be written whole is written reading by reading, each in a savepoint. A reading that fails by itself is
// kept aside and costs no other; several that fail in a row, with none between them that does not, are the store's fault.
import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import type { Reading } from '../../../wire/event.ts';
import type { Accepted } from '../../ingest.ts';
import { StoreError } from '../../store.ts';
import { faultOf } from '../fault.ts';
import type { Session } from '../session.ts';

/** So many different readings in a row do not fail for what they hold. */
const SUSPICIOUS = 3;
/** How the reason begins of what was readable, and failed. */
export const POISONED = 'poisoned: ';

/** The readings that failed since one did not, by digest. It outlives connections. */
export type Failing = Set<string>;

export interface Steps {
  /** The reading with all that it causes. */
  take: (reading: Reading) => Accepted;
  /** Its bytes are kept aside, with the reason. */
  keep: (reading: Reading, reason: string) => Accepted;
}

export interface Poison {
  /** Within a transaction. Throws StoreError where the store is at fault, or where none of a page may be passed by. */
  apart(readings: Reading[], isPage: boolean, steps: Steps): Accepted[];
  /** What makes the work fail by itself, undone; undefined where it succeeds. Throws StoreError for the store's faults. */
  failureOf(work: () => void): unknown;
  unwritable(error: unknown): StoreError;
}

export function createPoison(session: Session, failing: Failing): Poison {
  const { db, path } = session;

  function failureOf(work: () => void): unknown {
    try {
      session.write(work);
      return undefined;
    } catch (error) {
      const fault = faultOf(error, path);
      if (fault) throw fault;
      // Some errors undo more than their savepoint.
      if (!db.inTransaction) throw unwritable(error);
      return error ?? new Error('nothing was thrown');
    }
  }

  /** Tried once more alone: what does not fail again alike is no property of the reading. */
  function provenCause(work: () => void): string | undefined {
    const first = failureOf(work);
    if (first === undefined) return undefined;
    const second = failureOf(work);
    if (second === undefined) return undefined;
    if (codeOf(first) !== codeOf(second)) throw unwritable(second);
    return codeOf(second);
  }

  function unwritable(error: unknown): StoreError {
    const words = `${path} cannot be written: ${codeOf(error)}: see its disk and the log`;
    return faultOf(error, path) ?? new StoreError('unwritable', words, error);
  }

  return {
    failureOf,
    unwritable,
    apart(readings, isPage, { take, keep }) {
      const results: Accepted[] = [];
      let row: { at: number; reading: Reading; code: string }[] = [];

      function endRow(): void {
        for (const { at, reading, code } of row) {
          results[at] = { verdict: 'unkept' };
          if (failing.size >= SUSPICIOUS) continue;
          failureOf(() => {
            results[at] = keep(reading, `${POISONED}${code}`);
          });
        }
        row = [];
      }

      for (const [at, reading] of readings.entries()) {
        const code = provenCause(() => {
          results[at] = take(reading);
        });
        if (code !== undefined) {
          failing.add(bytesDigestOf(reading).toString('hex'));
          row.push({ at, reading, code });
          continue;
        }
        endRow();
        failing.clear();
      }
      endRow();
      const unkept = results.filter(({ verdict }) => verdict === 'unkept').length;
      if (unkept > 0 && (isPage || unkept === results.length))
        throw new StoreError('unwritable', `${path} cannot be written: one event after the other fails`);
      return results;
    },
  };
}

/** The same bytes at another place in history are another event. */
export function bytesDigestOf(reading: Reading): Buffer {
  const { cursor, body } = 'event' in reading ? reading.event : reading.unreadable;
  return createHash('sha256')
    .update(cursor ?? '')
    .update(body)
    .digest();
}

function codeOf(error: unknown): string {
  if (error instanceof Database.SqliteError) return error.code;
  return error instanceof Error && /^\w{1,40}$/.test(error.name) ? error.name : 'unknown';
}
