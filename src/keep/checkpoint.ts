// Copies the WAL into the store's file, outside the process that accepts deliveries. Under load, PASSIVE checkpoints
// alone never let the WAL start over. So above RESTART_BYTES a RESTART checkpoint follows. It waits only briefly,
// because a PASSIVE one has just copied most of the WAL.
import type { Store } from '../store/store.ts';

const EVERY_MS = 250;
const RESTART_BYTES = 32 * 1024 * 1024;

export function createCheckpointer(store: Pick<Store, 'keep'>) {
  let bytes = 0;
  return async (): Promise<number> => {
    bytes = await store.keep.checkpoint(bytes > RESTART_BYTES);
    return EVERY_MS;
  };
}
