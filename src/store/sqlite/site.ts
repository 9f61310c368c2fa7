// The place of an SQLite store: its file, the files beside it, and their disk.
import { statSync } from 'node:fs';
import type { Site } from '../site.ts';
import { remedyOf } from './fault.ts';
import { freeBytesOf } from './folder.ts';
import { fingerprintOf, writerOf } from './lock.ts';
import { own } from './ownership.ts';

export function siteOf(path: string): Site {
  const bytesOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const freeBytes = (): number => freeBytesOf(path);
  return {
    name: path,
    fingerprint: fingerprintOf(path),
    take: (options) => own(path, options),
    disk: async () => ({ storeBytes: bytesOf(path), logBytes: bytesOf(`${path}-wal`), freeBytes: freeBytes() }),
    freeBytes,
    writer: () => writerOf(path),
    remedyOf,
  };
}
