// One instance owns a store: it takes the lock, ends what an older owner left running, and opens the file.
import { startOf } from './process.ts';
import { lockStore } from './store/sqlite/lock.ts';
import { openSqlite } from './store/sqlite/open.ts';
import { patiently } from './store/patiently.ts';
import type { Store } from './store/store.ts';

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
