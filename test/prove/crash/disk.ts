// A disk whose power may fail at any step of a recording: what was synced is on it, and of what was written since any
// part may be. Names of files are always there: the file system keeps those of files that were synced.
import type { Random } from '../../../src/base/random.ts';
import type { Step } from './recording.ts';

const SECTOR = 512;

/** `none`: nothing that was not synced. `some`: each write by chance, whole, in part, or not at all. */
export type Luck = 'all' | 'none' | 'some';

interface Change {
  call: number;
  at: number;
  /** Undefined: the file is cut there. */
  bytes: Buffer | undefined;
  /** Its call has returned: a sync that begins now covers it. */
  ended: boolean;
  /** The syncs under way that cover it. */
  syncs: number[];
}

interface File {
  synced: Buffer;
  unsynced: Change[];
}

export interface Disk {
  take(step: Step): void;
  /** How many changes are not synced. */
  unsynced(): number;
  /** By the end of their names. */
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

/** What of a change the disk has: the change, nothing, or some of its sectors. */
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

/** What lies between is zeros, as in a file with a hole. */
function grown(file: Buffer, length: number): Buffer {
  return file.length >= length ? file : Buffer.concat([file, Buffer.alloc(length - file.length)]);
}
