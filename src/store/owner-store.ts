// What the process that owns the store needs: who is alive, and what the dead were at.
import type { Books } from './keep-store.ts';

export type Role = 'receive' | 'run' | 'keep';

export interface Process {
  role: string;
  pid: number;
  started: string;
  boot: number;
}

export interface OwnerStore {
  /**
   * Brings the log into the file, synced, before anything is built on it: an earlier process may have died with a sync
   * that had failed. Throws StoreError, `busy` while others read it.
   */
  settle(): Promise<void>;
  /** The id of the store. */
  identity(): Promise<string>;
  /** Gives it another; `settle` brings it into the file. */
  identify(id: string): Promise<void>;
  /** A number that no process had before. */
  nextBoot(): Promise<number>;
  /** Says that a process is there. */
  beat(process: Process, now: number): Promise<void>;
  gone(role: string): Promise<void>;
  processes(): Promise<Process[]>;
  /** What an earlier boot knew of failures and secrets. */
  books(): Promise<Books>;
  /**
   * The tasks that the dead processes were at: given back and marked suspect, to run alone. One that was the only one
   * has spent its attempt. `alive` are the boots that still run. Returns how many.
   */
  giveBack(alive: number[], now: number): Promise<number>;
  /** Whether a suspect of one of these handlers waits for a process of its own. */
  suspectDue(now: number, handlers: string[]): Promise<boolean>;
}
