// One instance owns a store: it takes the lock, ends what an older owner left running, and opens the file.
import { startOf } from './process.ts';
import { lockStore } from './store/sqlite/lock.ts';
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
  const store = openSqlite(path, { owner: true, synchronous: 'NORMAL', retentionMs, busyMs: 0, onReplaced });
  for (const { pid, started, role } of await patiently(() => store.processes(), START_MS)) {
    if (started !== '' && pid !== process.pid && startOf(pid) === started) end(pid, path);
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
