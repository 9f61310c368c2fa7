// The store's folder: created if missing, refused on a network file system, where locks and syncs are unreliable.
import { mkdirSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { StoreError } from '../store.ts';
import { guarded, mayPass } from './fault.ts';

/** statfs types of file systems with unreliable locks or syncs. */
const NETWORK = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x517b, 'SMB'],
  [0x01021997, '9p'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
]);

/** Creates the folder of the file. Throws StoreError if that fails, or if the folder is on a network. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    const words = `the folder ${folder} cannot be made: create it, writable for this user`;
    throw new StoreError('unwritable', words, error, mayPass(error));
  }
  const network = networkOf(folder);
  if (network) {
    throw new StoreError(
      'unwritable',
      `${folder} lies on ${network}: SQLite needs a local disk, set DATABASE_URL to one`,
    );
  }
}

/** The name of the network file system of a folder, or undefined. */
export function networkOf(folder: string): string | undefined {
  return NETWORK.get(guarded(() => statfsSync(folder).type, folder));
}

export function freeBytesOf(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path));
  return bavail * bsize;
}

const MB = 1024 * 1024;

/**
 * Throws StoreError if the disk of `to` has no room for a copy of a store of this size, which may grow by a tenth
 * meanwhile. `leaves`: the bytes that stay free. `what` begins the message, `remedy` ends it.
 */
export function requireRoom(
  to: string,
  storeBytes: number,
  { leaves = 0, what, remedy }: { leaves?: number; what: string; remedy: string },
): void {
  const takes = storeBytes * 1.1;
  const free = freeBytesOf(to);
  if (free >= takes + leaves) return;
  const [left, copy, rest] = [free, takes, leaves].map((bytes) => `${Math.ceil(bytes / MB)} MB`);
  const also = leaves > 0 ? ` and leaves ${rest} on the disk of the store` : '';
  const words = `${what}: ${left} are free, and the copy takes ${copy}${also}. ${remedy}`;
  throw new StoreError('unwritable', words, undefined, true);
}
