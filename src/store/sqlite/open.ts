// The SQLite store: all parts on one connection, every method asynchronous. After a failed write or sync, the next call
// opens a new connection. Deliveries and completions are synced after their commit. If the file or its WAL is moved,
// deleted or replaced, the store accepts nothing more and never opens another file.
import { iso, systemClock } from '../../base/clock.ts';
import { retryWhileBusy } from '../retry-while-busy.ts';
import type { OpenOptions } from '../site.ts';
import { StoreError, Unsynced, type Roles, type Store } from '../store.ts';
import { saveOpen } from './backup.ts';
import { connect, migrate, requireVersion, setSynchronous, type Connection } from './connection.ts';
import { faultOf, guarded } from './fault.ts';
import { createSeal, inodeOf, inodesOf } from './file-identity.ts';
import { createLog } from './wal-sync.ts';
import { createRoles } from './roles.ts';

/**
 * These methods fail if the file or its WAL was replaced. `complete` may still succeed, because it writes into the open
 * file, which has the claim.
 */
const PLACED = new Set(['accept', 'note']);
/** Maximum milliseconds that a completion waits for its sync. */
const SYNC_MS = 8_000;

export function openSqlite(path: string, options: OpenOptions = {}): Store {
  const { owner = false, synchronous = 'FULL', busyMs = 30 } = options;
  const { onReplaced = () => {}, onDropped = () => {}, onMigrated = () => {}, idsInSegment } = options;
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
    const migrated = create && guarded(() => migrate(opened, path), path);
    if (migrated) onMigrated(migrated);
    requireVersion(opened, path);
    setSynchronous(opened, synchronous);
    opened.pragma(`busy_timeout = ${busyMs}`);
    return opened;
  }

  function assemble(connection: Connection) {
    const opened = inodesOf(path);
    const roles = createRoles(connection, path, {
      failing,
      onDropped,
      idsInSegment,
      settleLog: (always) => log.settle(connection, always),
      onSettled(identity) {
        if (owner && path !== ':memory:') seal.set(identity);
      },
    });
    return { roles, inPlace: () => inodesOf(path) === opened };
  }

  function use(role: keyof Roles, name: string, args: unknown[]): unknown {
    try {
      if (PLACED.has(name) || broken) requirePlace();
      if (broken) {
        guarded(() => db.close(), path);
        db = open(false);
        log.close();
        parts = assemble(db);
        broken = false;
      }
      const methods = parts.roles[role] as unknown as Record<string, (...values: unknown[]) => unknown>;
      const result = guarded(() => methods[name]?.(...args), path);
      return result instanceof Promise ? result.catch(failed) : result;
    } catch (error) {
      return failed(error);
    }
  }

  function failed(given: unknown): never {
    const error = faultOf(given, path) ?? given;
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'unwritable') broken = true;
    if (error.code === 'replaced') lose(error);
    throw error;
  }

  /** The other methods wait while a handler's transaction is open, because they use the same connection. */
  const connection: { work?: Promise<unknown> | undefined } = {};

  async function inTurn(role: keyof Roles, name: string, args: unknown[]): Promise<unknown> {
    while (connection.work) await connection.work;
    const result = use(role, name, args);
    if (!(result instanceof Promise)) return result;
    const end = (): void => void (connection.work = undefined);
    connection.work = result.then(end, end);
    return result;
  }

  function requirePlace(): void {
    if (lost) throw lost;
    if (!guarded(() => parts.inPlace(), path)) throw replacedError(path, ours);
    if (!guarded(() => seal.holds(), path)) throw overwrittenError(path);
  }

  /** The store stays unusable, because a file that comes back to the path may be any file. */
  function lose(found: StoreError): void {
    if (lost) return;
    lost = found;
    if (owner) onReplaced({ error: found, copy: saveLost() });
  }

  async function saveLost(): Promise<string | undefined> {
    try {
      // If the file was overwritten, no complete content is left to copy.
      if (!seal.holds()) return undefined;
      return await saveOpen(db, path, iso(systemClock.now()) ?? '');
    } catch {
      return undefined;
    }
  }

  function asynchronous<Role extends keyof Roles>(role: Role): Roles[Role] {
    const names = Object.keys(parts.roles[role]);
    return Object.fromEntries(names.map((name) => [name, (...args: unknown[]) => inTurn(role, name, args)])) as never;
  }
  const [ingest, state, work] = [asynchronous('ingest'), asynchronous('state'), asynchronous('work')];

  // The WAL is opened early. Otherwise the first completion could be delayed until it has lost its claim.
  if (synchronous === 'NORMAL') void log.open().catch(() => {});

  async function synced(): Promise<void> {
    // With FULL, SQLite has already synced within the commit.
    if (synchronous === 'FULL') return;
    try {
      await log.sync();
    } catch (error) {
      broken = true;
      throw error;
    }
  }

  /** Opens the WAL. If it is gone, the store may be gone too: `note` then throws StoreError `replaced`. */
  async function openLog(): Promise<void> {
    if (synchronous === 'FULL') return;
    await log.open().catch(async (error: unknown) => {
      await state.note({});
      throw error;
    });
  }

  /** Resolves when what a handler has committed is on disk. */
  async function onDisk(commit: () => Promise<boolean>): Promise<boolean> {
    await openLog();
    const held = await commit();
    // Completions that wait for the connection share the sync.
    while (connection.work) await connection.work;
    await synced().catch((error: unknown) => {
      if (!(error instanceof StoreError)) throw error;
      return retryWhileBusy(sync, SYNC_MS);
    });
    return held;
  }

  async function sync(): Promise<void> {
    await ingest.sync();
    await synced();
  }

  return {
    state,
    processes: asynchronous('processes'),
    replay: asynchronous('replay'),
    alarms: asynchronous('alarms'),
    keep: asynchronous('keep'),
    read: asynchronous('read'),
    admin: asynchronous('admin'),
    ingest: {
      sync,
      async accept(batch) {
        await openLog();
        const accepted = await ingest.accept(batch);
        try {
          await synced();
        } catch (error) {
          throw error instanceof StoreError ? new Unsynced(error, accepted) : error;
        }
        return accepted;
      },
    },
    work: {
      ...work,
      complete: (...given) => onDisk(() => work.complete(...given)),
      noteTask: (...given) => onDisk(() => work.noteTask(...given)),
    },
    // The processes of an SQLite store are on one machine.
    now: () => systemClock.now(),
    // There is one instance, whose processes wake each other.
    ring() {},
    onRing() {},
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
