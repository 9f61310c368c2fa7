// A file beside the store that keeps room free. Whoever finds the disk full deletes it, so that pruning and the next
// deliveries work while a person makes room; then it is written again.
import { statfsSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const BYTES = 32 * 2 ** 20;
const STEP_MS = 60_000;

export function createBallast(file: string): () => number {
  return () => {
    const { bavail, bsize } = statfsSync(dirname(file));
    const path = `${file}-ballast`;
    const isThere = statSync(path, { throwIfNoEntry: false })?.size === BYTES;
    if (!isThere && bavail * bsize > 8 * BYTES) writeFileSync(path, Buffer.alloc(BYTES));
    return STEP_MS;
  };
}
