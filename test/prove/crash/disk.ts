// A model of a disk that may lose power at any step of a recording. Synced data survives. Of the data written since,
// any part may survive. File names always survive, because a sync also saves the file's name. The -shm file is left
// out, because SQLite rebuilds it.
import type { Random } from '../../../src/tools/random.ts';
import type { Step } from './recording.ts';

const SECTOR = 512;

/**
 * `none`: no unsynced write survives. `some`: each unsynced write survives at random, whole, in part, or not at all.
 */
export type Luck = 'all' | 'none' | 'some';

interface Change {
  call: number;
  at: number;
  /** Undefined: the file is truncated at `at`. */
  bytes: Buffer | undefined;
  /** True: the call has returned, so a sync that begins later covers the change. */
  ended: boolean;
  /** The unfinished syncs that cover the change, by their call numbers. */
  syncs: number[];
}

interface File {
  synced: Buffer;
  unsynced: Change[];
}

export interface Disk {
  take(step: Step): void;
  /** The number of changes that are not synced. */
  unsynced(): number;
  /** The files' contents. Keys are suffixes of the store's name. */
  image(luck: Luck, random: Random): Map<string, Buffer>;
}

export function createDisk(): Disk {
  const files = new Map<string, File>();
  const open = new Map<number, Change>();

  function of(name: string): File {
    const file = files.get(name) ?? { synced: Buffer.alloc(0), unsynced: [] };
    files.set(name, file);
    return file;
  }

  return {
    take(step) {
      if (step.kind === 'write' || step.kind === 'truncate') {
        const bytes = step.kind === 'write' ? step.bytes : undefined;
        const change = { call: step.call, at: step.at, bytes, ended: false, syncs: [] };
        open.set(step.call, change);
        of(step.file).unsynced.push(change);
      }
      if (step.kind === 'ends') {
        const change = open.get(step.call);
        if (change) change.ended = true;
        open.delete(step.call);
      }
      if (step.kind === 'unlink') files.delete(step.file);
      if (step.kind === 'sync begins')
        for (const change of of(step.file).unsynced) if (change.ended) change.syncs.push(step.call);
      if (step.kind === 'sync ends') {
        const file = of(step.file);
        const { yes = [], no = [] } = Object.groupBy(file.unsynced, ({ syncs }) =>
          syncs.includes(step.call) ? 'yes' : 'no',
        );
        for (const change of yes) file.synced = apply(file.synced, change);
        file.unsynced = no;
      }
    },
    unsynced: () => [...files.values()].reduce((sum, file) => sum + file.unsynced.length, 0),
    image: (luck, random) =>
      new Map(
        Array.from(files, ([name, { synced, unsynced }]) => {
          const kept = unsynced.flatMap((change) => remains(change, luck, random));
          return [name, kept.reduce(apply, Buffer.from(synced))];
        }),
      ),
  };
}

/** The part of a change that survives: all, nothing, or some of its sectors. */
function remains(change: Change, luck: Luck, random: Random): Change[] {
  const draw = random.next();
  if (luck === 'all' || (luck === 'some' && draw < 0.4)) return [change];
  if (luck === 'none' || draw < 0.8 || !change.bytes) return [];
  const sectors: Change[] = [];
  const end = change.at + change.bytes.length;
  for (let from = change.at; from < end; from = (Math.floor(from / SECTOR) + 1) * SECTOR) {
    const upTo = Math.min(end, (Math.floor(from / SECTOR) + 1) * SECTOR);
    const bytes = change.bytes.subarray(from - change.at, upTo - change.at);
    if (random.next() < 0.5) sectors.push({ ...change, at: from, bytes });
  }
  return sectors;
}

function apply(file: Buffer, { at, bytes }: Change): Buffer {
  if (!bytes) return file.length > at ? file.subarray(0, at) : grown(file, at);
  const whole = grown(file, at + bytes.length);
  bytes.copy(whole, at);
  return whole;
}

/** Bytes between the old end and the new data are zeros, as in a file with a hole. */
function grown(file: Buffer, length: number): Buffer {
  return file.length >= length ? file : Buffer.concat([file, Buffer.alloc(length - file.length)]);
}
