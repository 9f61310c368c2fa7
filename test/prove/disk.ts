// A disk that loses power: what was synced survives; of what was written since, any part may.

const SECTOR = 512;

interface Write {
  at: number;
  /** Undefined: the file is cut at `at`. */
  bytes?: Buffer | undefined;
}

/** `call` numbers a system call. A write that has ended when a sync begins is on disk when that sync ends. */
export type Step =
  | ({ kind: 'write'; file: string; call: number } & Write)
  | { kind: 'unlink'; file: string }
  | { kind: 'sync begins'; file: string; call: number }
  | { kind: 'sync ends'; file: string; call: number }
  | { kind: 'ends'; call: number }
  | { kind: 'acknowledged'; what: string }
  | { kind: 'completed'; what: string };

/** What survives of writes that were not synced. `some`: of each, by chance, all, some sectors, or nothing. */
export type Luck = 'none' | 'all' | 'some';

type Change = Write & { call: number; hasEnded: boolean; syncs: number[] };

export class Disk {
  readonly #files = new Map<string, { synced: Buffer; changes: Change[] }>();

  take(step: Step): void {
    if (step.kind === 'acknowledged' || step.kind === 'completed') return;
    if (step.kind === 'ends') {
      for (const { changes } of this.#files.values())
        for (const change of changes) if (change.call === step.call) change.hasEnded = true;
      return;
    }
    if (step.kind === 'unlink') return void this.#files.delete(step.file);
    const file = this.#files.get(step.file) ?? { synced: Buffer.alloc(0), changes: [] };
    this.#files.set(step.file, file);
    if (step.kind === 'write') file.changes.push({ ...step, hasEnded: false, syncs: [] });
    if (step.kind === 'sync begins')
      for (const change of file.changes) if (change.hasEnded) change.syncs.push(step.call);
    if (step.kind !== 'sync ends') return;
    const isSafe = ({ syncs }: Change): boolean => syncs.includes(step.call);
    file.synced = file.changes.filter(isSafe).reduce(apply, file.synced);
    file.changes = file.changes.filter((change) => !isSafe(change));
  }

  /** Whether something is written that is not synced. */
  isOpen(): boolean {
    return [...this.#files.values()].some(({ changes }) => changes.length > 0);
  }

  /** What the files may hold if the power is lost now, by name. */
  image(luck: Luck): [name: string, bytes: Buffer][] {
    return Array.from(this.#files, ([name, { synced, changes }]) => {
      const kept = changes.flatMap((change) => survives(change, luck));
      return [name, kept.reduce(apply, Buffer.from(synced))];
    });
  }
}

function survives(change: Change, luck: Luck): Write[] {
  const draw = Math.random();
  if (luck === 'all' || (luck === 'some' && draw < 0.4)) return [change];
  const { at, bytes } = change;
  if (luck === 'none' || draw < 0.8 || !bytes) return [];
  const sectors = Array.from({ length: Math.ceil(bytes.length / SECTOR) }, (_, n) => n * SECTOR);
  return sectors
    .filter(() => Math.random() < 0.5)
    .map((from) => ({ at: at + from, bytes: bytes.subarray(from, from + SECTOR) }));
}

function apply(file: Buffer, { at, bytes }: Write): Buffer {
  const end = bytes ? at + bytes.length : at;
  if (!bytes && file.length >= at) return file.subarray(0, at);
  const whole = file.length >= end ? file : Buffer.concat([file, Buffer.alloc(end - file.length)]);
  bytes?.copy(whole, at);
  return whole;
}
