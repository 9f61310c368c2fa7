// One instance owns a store. The owner holds an exclusive transaction on a small file beside it: the kernel frees it
// the moment the owner dies, so that no stale mark can ever be in the way. A pid file could not promise that, and in a
// container everyone is pid 1.
import Database from 'better-sqlite3';
import { startOf } from './process.ts';
import { guarded, prepareFolder } from './store/sqlite/connection.ts';
import { openSqlite } from './store/sqlite/open.ts';
import { patiently } from './store/patiently.ts';
import { StoreError, type Store } from './store/store.ts';

/** A start that cannot write its store for this long is refused. */
export const START_MS = 5_000;

export interface Ownership {
  store: Store;
  release(): void;
}

/** Throws StoreError `owned` where another process has it. Ends what an older owner left running. */
export async function own(path: string, retentionMs: number, onReplaced: () => void): Promise<Ownership> {
  const lock = lockStore(path);
  const store = openSqlite(path, { owner: true, retentionMs, busyMs: 0, onReplaced });
  for (const { pid, started, role } of await patiently(() => store.processes(), START_MS)) {
    if (started !== '' && pid !== process.pid && startOf(pid) === started) process.kill(pid, 'SIGKILL');
    await patiently(() => store.gone(role), START_MS);
  }
  return {
    store,
    release() {
      store.close();
      lock.close();
    },
  };
}

/** Until it is closed, nobody else owns the store. Throws StoreError `owned`. */
export function lockStore(path: string): Database.Database {
  prepareFolder(path);
  return guarded(() => takeLock(path), path);
}

function takeLock(path: string): Database.Database {
  const file = `${path}-owner`;
  try {
    const lock = new Database(file, { timeout: 0 });
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    if (!(error instanceof Database.SqliteError) || !error.code.startsWith('SQLITE_BUSY')) throw error;
    throw new StoreError(
      'owned',
      `${path} is served by process ${ownerOf(path)}: stop that one first, or set DATABASE_URL to another file`,
    );
  }
}

function ownerOf(path: string): string {
  try {
    const db = new Database(path, { readonly: true, timeout: 1_000 });
    const pid = db.prepare<[], number>(`select pid from processes where role = 'receive'`).pluck().get();
    db.close();
    return pid === undefined ? 'unknown, which is just starting' : String(pid);
  } catch {
    return 'unknown, which is just starting';
  }
}
