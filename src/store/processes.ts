// What the process that owns the store needs: who is alive, and what the dead were at.
import type { KeptHealth } from './keep.ts';

export type Role = 'receive' | 'run' | 'keep';

export interface Process {
  role: string;
  pid: number;
  started: string;
  boot: number;
}

/** What became of a reload. */
export interface Reloaded {
  /** Questions up to this one were asked before it began. */
  asked: number;
  /** Their names. */
  handlers: string[];
  ms: number;
  faults: string[];
  /** What goes on as it was, because of the faults; null: nothing. */
  old: 'handlers go on' | 'configuration stays in force' | null;
  /** Variables that changed, and take a restart. */
  restart: string[];
}

export interface ProcessStore {
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
  /** Asks for a reload; the number of the question. The receiver is to be told, too. */
  askReload(): Promise<number>;
  /** The number of the last question; 0: there was none. */
  reloadAsked(): Promise<number>;
  /** What became of the last reload; null: there was none. */
  reloaded(): Promise<Reloaded | null>;
  /** What an earlier boot knew of failures and secrets. */
  books(): Promise<KeptHealth>;
  /**
   * The tasks that the dead processes were at: given back and marked isolated, to run alone. One that was the only one
   * has spent its attempt. `alive` are the boots that still run.
   */
  giveBack(alive: number[], now: number, crash?: CrashPolicy): Promise<GivenBack[]>;
  /** Whether an isolated task of one of these handlers waits for a process of its own. */
  isolatedDue(now: number, handlers: string[]): Promise<boolean>;
}

/** How a process died, and what that means for a task that was alone in it. Without it, nobody saw the process die. */
export interface CrashPolicy {
  /** In words: exit code or signal, and where it is known the place. */
  how: string;
  after(handler: string, attempt: number, crashes: number): { delayMs: number; holdMs: number } | 'dead';
}

export interface GivenBack {
  handler: string;
  key: string;
  attempt: number;
  /** It was the only one in its process. */
  alone: boolean;
  dead: boolean;
}
