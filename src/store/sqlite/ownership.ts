// Makes this process the only owner of a store. It takes the lock, opens the file only if nobody has replaced it,
// and ends processes that an older owner left running. Before anything else is written, commits that an older owner
// could not sync are copied from the WAL into the file.
import { randomUUID } from 'node:crypto';
import { startOf } from '../../base/process-start.ts';
import { guarded } from './fault.ts';
import { inodeOf, readMark, requireSame, requireUnharmed, sizeOf, writeMark } from './file-identity.ts';
import { lockStore } from './lock.ts';
import { retryWhileBusy } from '../retry-while-busy.ts';
import { START_MS, type Taken, type TakeOptions } from '../site.ts';
import { StoreError, type Store } from '../store.ts';
import { openSqlite } from './open.ts';

/** Throws StoreError: `owned` if another process owns the store, `replaced` if another file is in its place. */
export async function own(path: string, { moving, ...options }: TakeOptions): Promise<Taken> {
  const lock = lockStore(path);
  let store: Store | undefined;
  let logLost = false;
  try {
    const here = readMark(path)?.file === inodeOf(path);
    guarded(() => requireSame(path), path);
    const logged = sizeOf(`${path}-wal`) > 0;
    store = openSqlite(path, { owner: true, synchronous: 'NORMAL', busyMs: 0, ...options });
    await refuseMoved(store, path, moving);
    const left = await endOthers(store, path, here);
    logLost = left.length > 0 && !logged;
    if (logLost) guarded(() => requireUnharmed(path), path);
    await renew(store, path);
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
    release(): void {
      owned.close();
      lock.close();
    },
  };
}

/**
 * Ends processes that an older owner left running. Call it before anything is written: they may read the WAL and block
 * its copying. If this store is a copy, the processes noted in it use the original and are left alone.
 */
async function endOthers(store: Store, path: string, here: boolean): Promise<string[]> {
  const left = await retryWhileBusy(() => store.processes.list(), START_MS);
  if (!here) return left.map(({ role }) => role);
  for (const { pid, started } of left)
    if (started !== '' && pid !== process.pid && startOf(pid) === started) end(pid, path);
  return left.map(({ role }) => role);
}

/** Deliveries that it accepted would be missing in the other store. */
async function refuseMoved(store: Store, path: string, moving = false): Promise<void> {
  const to = await retryWhileBusy(() => store.state.get('moved_to'), START_MS);
  if (to !== null && moving) await retryWhileBusy(() => store.state.note({}, { moved_to: null }), START_MS);
  else if (to !== null)
    throw new StoreError('replaced', `${path} was moved to ${to}: set DATABASE_URL to that, or take another file`);
}

async function forget(store: Store, roles: string[]): Promise<void> {
  for (const role of roles) await retryWhileBusy(() => store.processes.gone(role), START_MS);
}

/**
 * Gives the store a new id, so that an older copy of the file is not mistaken for it. The mark, a small file beside the
 * store, names the id that the store has at each moment.
 */
async function renew(store: Store, path: string): Promise<void> {
  await retryWhileBusy(() => store.processes.settle(), START_MS);
  const [id, was] = [randomUUID(), await store.processes.identity()];
  guarded(() => writeMark(path, id, was), path);
  await retryWhileBusy(() => store.processes.identify(id), START_MS);
  await retryWhileBusy(() => store.processes.settle(), START_MS);
  guarded(() => writeMark(path, id, null), path);
}

function end(pid: number, path: string): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // The process may have ended by itself just now, because its owner is gone. If it still runs, it belongs to
    // another user.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return;
    throw new StoreError(
      'owned',
      `${path} is still used by process ${pid} of another user: stop that process first`,
      error,
    );
  }
}
