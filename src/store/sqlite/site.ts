// The place of an SQLite store: its file, the files beside it, and their disk.
import type { Site } from '../site.ts';
import { remedyOf } from './fault.ts';
import { sizeOf } from './file-identity.ts';
import { freeBytesOf } from './folder.ts';
import { fingerprintOf, writerOf } from './lock.ts';
import { own } from './ownership.ts';

export function siteOf(path: string): Site {
  const freeBytes = (): number => freeBytesOf(path);
  return {
    name: path,
    fingerprint: fingerprintOf(path),
    take: (options) => own(path, options),
    disk: async () => ({ storeBytes: sizeOf(path), logBytes: sizeOf(`${path}-wal`), freeBytes: freeBytes() }),
    freeBytes,
    writer: () => writerOf(path),
    remedyOf,
  };
}
