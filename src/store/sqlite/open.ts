// The SQLite store: its parts on one connection, every method awaited and guarded alike. After a failed write or sync
// the connection is not trusted again; the next call opens a new one. Deliveries and completions are synced after their commit.
import { statSync } from 'node:fs';
import { StoreError, type Store } from '../store.ts';
import { connect, guarded, migrate, requireVersion, setSynchronous, type Connection } from './connection.ts';
import { createErase } from './erase.ts';
import { createEventStore } from './events.ts';
import { createLog } from './log.ts';
import { createMend } from './mend.ts';
import { createMove } from './move.ts';
import { createOwner } from './owner.ts';
import { createReruns } from './reruns.ts';
import { createSamples } from './samples.ts';
import { createSession, type Sync } from './session.ts';
import { createTaskStore } from './tasks.ts';
import { createUpkeep } from './upkeep.ts';
import { createWatch } from './watch.ts';

export interface OpenOptions {
  /** The owner creates and migrates the file; everyone else finds it ready. */
  owner?: boolean;
  /**
   * What SQLite syncs within the commit: everything, or with NORMAL nothing. Either way what is accepted, or completed with
   * a handler's writes, is on disk before `accept` or `complete` resolves. `run`'s claims and verdicts are done again after a
   * power loss, never lost.
   */
  synchronous?: 'FULL' | 'NORMAL';
  /** How young an event may be and still have been pruned, milliseconds. */
  retentionMs?: number;
  /** How long a lock held elsewhere may block, milliseconds. */
  busyMs?: number;
  /** How many ids make a segment: for tests. */
  idsInSegment?: number;
  /** Another file has taken the place of the store's, and was opened instead. */
  onReplaced?: () => void;
}

const DAY_MS = 86_400_000;
/** Verbs that must not succeed in a file that is no longer at its path. */
const PLACED = new Set(['accept', 'note']);

type Parts = Sync<Omit<Store, 'close'>> & { inPlace(): boolean };

export function openSqlite(path: string, options: OpenOptions = {}): Store {
  const { owner = false, synchronous = 'FULL', retentionMs = 30 * DAY_MS, busyMs = 30 } = options;
  const { onReplaced = () => {}, idsInSegment } = options;
  const log = createLog(path);
  let db = open(owner);
  let parts = assemble(db);
  let ours = inodeOf(path);
  let broken = false;

  function open(create: boolean): Connection {
    const opened = connect(path, { create, busyMs: create ? 5_000 : busyMs });
    if (create) {
      guarded(() => migrate(opened, path), path);
    }
    requireVersion(opened, path);
    setSynchronous(opened, synchronous);
    opened.pragma(`busy_timeout = ${busyMs}`);
    return opened;
  }

  function assemble(connection: Connection): Parts {
    const session = createSession(connection, path, synchronous);
    const events = createEventStore(session, retentionMs, idsInSegment);
    const tasks = createTaskStore(session);
    return {
      ...events,
      accept(batch) {
        log.settle(connection);
        return events.accept(batch);
      },
      ...tasks,
      complete(...given) {
        log.settle(connection);
        return tasks.complete(...given);
      },
      ...createUpkeep(session, events.accept, idsInSegment),
      ...createWatch(session),
      ...createReruns(session),
      ...createMove(session),
      ...createSamples(session),
      ...createMend(session, events.accept),
      ...createErase(session),
      ...createOwner(session),
    };
  }

  function change(to: Connection): void {
    db = to;
    log.close();
    parts = assemble(db);
    broken = false;
  }

  function use(name: string, args: unknown[]): unknown {
    if (PLACED.has(name) && !inPlace())
      throw new StoreError('unwritable', 'the store file was replaced or deleted while open');
    if (broken) {
      guarded(() => db.close(), path);
      change(open(false));
    }
    try {
      const method = parts[name as keyof typeof parts] as (...values: unknown[]) => unknown;
      return guarded(() => method(...args), path);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'unwritable') broken = true;
      throw error;
    }
  }

  /** Where another file has taken the place of ours, that is the store from now on. */
  function inPlace(): boolean {
    if (parts.inPlace()) return true;
    const inode = inodeOf(path);
    // Where only the log was deleted, the others still write into it: nothing is safe until all of them have stopped.
    if (inode === undefined || inode === ours) return false;
    try {
      // The old connection is left open: closing it would remove the log of the file that is there now.
      change(open(false));
    } catch (error) {
      if (error instanceof StoreError) return false;
      throw error;
    }
    ours = inode;
    onReplaced();
    return true;
  }

  const verbs = Object.keys(parts).filter((name) => name !== 'inPlace');
  const methods = verbs.map((name) => [name, async (...args: unknown[]) => use(name, args)]);
  const store = Object.fromEntries(methods) as Omit<Store, 'close'>;

  // A completion that nobody awaits shall not come too late for its claim.
  if (synchronous === 'NORMAL') void log.open().catch(() => {});

  async function synced<Result>(work: () => Promise<Result>): Promise<Result> {
    // SQLite syncs it within the commit.
    if (synchronous === 'FULL') return work();
    await log.open();
    const result = await work();
    await log.sync();
    return result;
  }

  return {
    ...store,
    accept: (batch) => synced(() => store.accept(batch)),
    complete: (...given) => synced(() => store.complete(...given)),
    close() {
      log.close();
      db.close();
    },
  };
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}
