// Copies SQLite's log into the file, away from the loop that acknowledges. PASSIVE alone never lets the log begin anew
// under load; past 32 MB a RESTART right behind a PASSIVE does, and has little left to wait for.
import type { KeepStore } from '../store/keep.ts';

const EVERY_MS = 250;
const RESTART_BYTES = 32 * 1024 * 1024;

/** A step; milliseconds until the next. */
export function createCheckpointer(store: Pick<KeepStore, 'checkpoint'>): { step: () => Promise<number> } {
  let bytes = 0;
  return {
    async step() {
      bytes = await store.checkpoint(bytes > RESTART_BYTES);
      return EVERY_MS;
    },
  };
}
