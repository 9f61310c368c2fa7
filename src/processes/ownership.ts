// One instance owns a store: it takes the lock, ends what an older owner left running, and opens the file, unless it is not
// the one that was there last. What an older owner could not sync is brought into the file before anything is built on it.
import { statSync } from 'node:fs';
import { startOf } from '../base/process-start.ts';
import { guarded } from '../store/sqlite/fault.ts';
import { inodeOf, newId, readMark, requireSame, requireUnharmed, writeMark } from '../store/sqlite/file-identity.ts';
import { lockStore } from '../store/sqlite/lock.ts';
import { openSqlite, type OpenOptions, type Replaced } from '../store/sqlite/open.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError, type Store } from '../store/store.ts';

/** A start that cannot write its store for this long is refused. */
export const START_MS = 5_000;

export type { Replaced };

export interface Ownership {
  store: Store;
  /** Its log was deleted or emptied after a kill: what was committed last may be missing. */
  logLost: boolean;
  release(): void;
}

/**
 * Throws StoreError `owned` where another process has it, `replaced` where another file lies in its place. Ends what an
 * older owner left running.
 */
export async function own(path: string, options: Pick<OpenOptions, 'onReplaced' | 'onDropped'>): Promise<Ownership> {
  const lock = lockStore(path);
  let store: Store | undefined;
  let logLost = false;
  try {
    const here = readMark(path)?.file === inodeOf(path);
    guarded(() => requireSame(path), path);
    const logged = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
    store = openSqlite(path, { owner: true, synchronous: 'NORMAL', busyMs: 0, ...options });
    const left = await endOthers(store, path, here);
    logLost = left.length > 0 && !logged;
    if (logLost) guarded(() => requireUnharmed(path), path);
    await nameAnew(store, path);
    await forget(store, left);
  } catch (error) {
    store?.close();
    lock.close();
    throw error;
  }
  const owned = store;
  return {
    store: owned,
    logLost,
    release() {
      owned.close();
      lock.close();
    },
  };
}

/** Before anything is written: while they live they may keep the log from being settled. Those of a copied store work elsewhere. */
async function endOthers(store: Store, path: string, here: boolean): Promise<string[]> {
  const left = await retryWhileBusy(() => store.processes(), START_MS);
  if (!here) return left.map(({ role }) => role);
  for (const { pid, started } of left)
    if (started !== '' && pid !== process.pid && startOf(pid) === started) end(pid, path);
  return left.map(({ role }) => role);
}

async function forget(store: Store, roles: string[]): Promise<void> {
  for (const role of roles) await retryWhileBusy(() => store.gone(role), START_MS);
}

/** So that no copy from before passes for this store. At each moment the mark knows the id that the file has. */
async function nameAnew(store: Store, path: string): Promise<void> {
  await retryWhileBusy(() => store.settle(), START_MS);
  const [id, was] = [newId(), await store.identity()];
  guarded(() => writeMark(path, id, was), path);
  await retryWhileBusy(() => store.identify(id), START_MS);
  await retryWhileBusy(() => store.settle(), START_MS);
  guarded(() => writeMark(path, id, null), path);
}

function end(pid: number, path: string): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // Its owner is gone: it may have ended by itself just now. Else it is not ours to end.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return;
    throw new StoreError(
      'owned',
      `${path} is still used by process ${pid} of another user: stop that one first`,
      error,
    );
  }
}
