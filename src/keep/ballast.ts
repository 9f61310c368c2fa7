// Keeps a reserve file beside the store. A process that finds the disk full deletes the file, so that pruning and the next
// deliveries work while a person makes room. When there is room, the file is written again.
import { appendFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

const MIB = 2 ** 20;
const BYTES = 32 * MIB;
const STEP_MS = 60_000;

export function createBallast(file: string): () => number {
  return () => {
    const { bavail, bsize } = statfsSync(dirname(file));
    const path = `${file}-ballast`;
    const isThere = statSync(path, { throwIfNoEntry: false })?.size === BYTES;
    if (!isThere && bavail * bsize > 8 * BYTES) write(path);
    return STEP_MS;
  };
}

export const makeRoom = (file: string): void => rmSync(`${file}-ballast`, { force: true });

function write(path: string): void {
  try {
    rmSync(path, { force: true });
    const part = Buffer.alloc(MIB);
    for (let bytes = 0; bytes < BYTES; bytes += MIB) appendFileSync(path, part);
  } catch {
    // A quota may allow less than the disk has free.
    rmSync(path, { force: true });
  }
}
