// Tests keep their files in memory, because waiting for a disk would take longer than the tests. The folder is removed
// after the run.
import { mkdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
/** Free bytes that are needed in /dev/shm. Containers often have less there, and then the disk is used. */
const NEEDED_BYTES = 1024 ** 3;

/** A folder in memory if there is room. A run inside of a test stays in the folder of that test. */
export const root = tmpdir().startsWith(MEMORY) || freeBytes() < NEEDED_BYTES ? tmpdir() : MEMORY;

/** os.tmpdir() returns this folder in tests. */
export const folder = join(root, `kit-test-${process.pid}`);

/** The free bytes of /dev/shm. 0 if the system has no such folder. */
function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

export default function makeFolder(): void {
  mkdirSync(folder, { recursive: true });
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}
