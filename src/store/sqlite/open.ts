// The SQLite store: its parts on one connection, every method awaited and guarded alike. After a failed write or sync
// the connection is not trusted again; the next call opens a new one. Deliveries and completions are synced after their commit.
// A store whose file or log loses its place takes nothing any more: what lies there now is never opened.
import { iso, systemClock } from '../../base/clock.ts';
import { retryWhileBusy } from '../retry-while-busy.ts';
import { StoreError, Unsynced, type Store } from '../store.ts';
import { saveOpen } from './backup.ts';
import { connect, migrate, requireVersion, setSynchronous, type Connection } from './connection.ts';
import { guarded } from './fault.ts';
import { createSeal, inodeOf } from './file-identity.ts';
import { createErase } from './admin/erase.ts';
import { createEventStore, type Dropped } from './ingest/events.ts';
import { createLog } from './wal-sync.ts';
import { createRetry } from './admin/retry.ts';
import { createMove } from './admin/move.ts';
import { createOwner } from './work/orphans.ts';
import { createReruns } from './admin/reruns.ts';
import { createSamples } from './read/samples.ts';
import { createSession, type Sync } from './session.ts';
import { createTaskStore } from './work/tasks.ts';
import { createUpkeep } from './keep/upkeep.ts';
import { createRead } from './read/read.ts';

export interface OpenOptions {
  /** The owner creates and migrates the file; everyone else finds it ready. */
  owner?: boolean;
  /**
   * What SQLite syncs within the commit: everything, or with NORMAL nothing. Either way what is accepted, or completed with
   * a handler's writes, is on disk before `accept` or `complete` resolves. `run`'s claims and verdicts are done again after a
   * power loss, never lost.
   */
  synchronous?: 'FULL' | 'NORMAL';
  /** How long a lock held elsewhere may block, milliseconds. */
  busyMs?: number;
  /** How many ids make a segment: for tests. */
  idsInSegment?: number;
  /** Told what was to be written beside deliveries, and could not be, by an error of its own. */
  onDropped?: Dropped;
  /** The owner's file or its log is no longer in its place: from now on nothing is accepted. */
  onReplaced?: (replaced: Replaced) => void;
}

export interface Replaced {
  error: StoreError;
  /** The name of a copy of what was accepted until then; undefined where none could be made. */
  copy: Promise<string | undefined>;
}

/** Verbs that must not succeed in a file that is no longer at its path. What handlers complete goes where their claims are. */
const PLACED = new Set(['accept', 'note']);
/** What a handler has committed may wait so long for its sync. */
const SYNC_MS = 8_000;

type Parts = Sync<Omit<Store, 'close' | 'sync'>> & { resettle(): void; inPlace(): boolean };

export function openSqlite(path: string, options: OpenOptions = {}): Store {
  const { owner = false, synchronous = 'FULL', busyMs = 30 } = options;
  const { onReplaced = () => {}, onDropped = () => {}, idsInSegment } = options;
  const failing = new Set<string>();
  const log = createLog(path);
  const seal = createSeal(path);
  let db = open(owner);
  let parts = assemble(db);
  const ours = path === ':memory:' ? undefined : inodeOf(path);
  let broken = false;
  let lost: StoreError | undefined;

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
    const events = createEventStore(session, { idsInSegment, failing, onDropped });
    const tasks = createTaskStore(session);
    const ownerPart = createOwner(session);
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
      resettle: () => log.settle(connection),
      ...createUpkeep(session, events.accept, idsInSegment),
      ...createRead(session),
      ...createReruns(session),
      ...createMove(session),
      ...createSamples(session),
      ...createRetry(session, events.readmit),
      ...createErase(session),
      ...ownerPart,
      settle() {
        log.settle(connection, true);
        if (owner && path !== ':memory:') seal.set(ownerPart.identity());
      },
    };
  }

  function change(to: Connection): void {
    db = to;
    log.close();
    parts = assemble(db);
    broken = false;
  }

  function use(name: string, args: unknown[]): unknown {
    try {
      if (PLACED.has(name) || broken) requirePlace();
      if (broken) {
        guarded(() => db.close(), path);
        change(open(false));
      }
      const method = parts[name as keyof typeof parts] as (...values: unknown[]) => unknown;
      return guarded(() => method(...args), path);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.code === 'unwritable') broken = true;
      if (error.code === 'replaced') lose(error);
      throw error;
    }
  }

  function requirePlace(): void {
    if (lost) throw lost;
    if (!guarded(() => parts.inPlace(), path)) throw replacedError(path, ours);
    if (!guarded(() => seal.holds(), path)) throw overwrittenError(path);
  }

  /** For good: what lies there now, or comes back, may be anything. */
  function lose(found: StoreError): void {
    if (lost) return;
    lost = found;
    if (owner) onReplaced({ error: found, copy: saveLost() });
  }

  async function saveLost(): Promise<string | undefined> {
    try {
      // Of a file that was written over, nothing whole is left.
      if (!seal.holds()) return undefined;
      return await saveOpen(db, path, iso(systemClock.now()) ?? '');
    } catch {
      return undefined;
    }
  }

  const verbs = Object.keys(parts).filter((name) => name !== 'inPlace');
  const methods = verbs.map((name) => [name, async (...args: unknown[]) => use(name, args)]);
  const store = Object.fromEntries(methods) as Omit<Store, 'close' | 'sync'> & { resettle(): Promise<void> };

  // A completion that nobody awaits shall not come too late for its claim.
  if (synchronous === 'NORMAL') void log.open().catch(() => {});

  /** What was committed before is on disk. */
  async function synced(): Promise<void> {
    // SQLite has synced it within the commit.
    if (synchronous === 'FULL') return;
    try {
      await log.sync();
    } catch (error) {
      broken = true;
      throw error;
    }
  }

  /** Where the log is gone, so may be the store. */
  async function openLog(): Promise<void> {
    if (synchronous === 'FULL') return;
    await log.open().catch(async (error: unknown) => {
      await store.note({});
      throw error;
    });
  }

  async function sync(): Promise<void> {
    await store.resettle();
    await synced();
  }

  return {
    ...store,
    sync,
    async accept(batch) {
      await openLog();
      const accepted = await store.accept(batch);
      try {
        await synced();
      } catch (error) {
        throw error instanceof StoreError ? new Unsynced(error, accepted) : error;
      }
      return accepted;
    },
    async complete(...given) {
      await openLog();
      const held = await store.complete(...given);
      await synced().catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        return retryWhileBusy(sync, SYNC_MS);
      });
      return held;
    },
    close() {
      log.close();
      db.close();
      seal.close();
    },
  };
}

function replacedError(path: string, ours: string | undefined): StoreError {
  const words =
    inodeOf(path) === ours
      ? `the log of ${path} was deleted or replaced while it was open: stop the kit with SIGTERM, which writes back what it holds, and start it again`
      : `${path} was replaced or deleted while it was open: stop the kit, then put a backup in its place with npx kit restore <file>`;
  return new StoreError('replaced', words);
}

function overwrittenError(path: string): StoreError {
  return new StoreError(
    'replaced',
    `another file was copied over ${path} while it was open: stop the kit, then put a backup in its place with npx kit restore <file>`,
  );
}
