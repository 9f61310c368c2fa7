// The role of the store for the owner, the main process: which processes are alive, and what dead ones left.
import type { KeptHealth } from './keep.ts';

export type Role = 'receive' | 'run' | 'keep';

export interface Process {
  role: string;
  pid: number;
  started: string;
  boot: number;
}

/** The outcome of a reload. */
export interface Reloaded {
  /** The reload answers requests up to this number. */
  asked: number;
  /** Names of handlers. */
  handlers: string[];
  ms: number;
  faults: string[];
  /** What stays in force because of the faults; null: nothing. */
  old: 'handlers go on' | 'configuration stays in force' | null;
  /** Changed variables that need a restart. */
  restart: string[];
}

export interface ProcessStore {
  /**
   * Copies the log into the file, synced, before the store is used: an earlier process may have died after a failed
   * sync. Throws StoreError `busy` while others read the log.
   */
  settle(): Promise<void>;
  /** The id of the store. */
  identity(): Promise<string>;
  /** Sets another id; `settle` copies it into the file. */
  identify(id: string): Promise<void>;
  /** A number that no process had before. */
  nextBoot(): Promise<number>;
  /** Notes a sign of life of a process. */
  beat(process: Process, now: number): Promise<void>;
  gone(role: string): Promise<void>;
  processes(): Promise<Process[]>;
  /** Requests a reload and returns the number of the request. The main process must be signalled as well. */
  askReload(): Promise<number>;
  /** The number of the last request; 0: none. */
  reloadAsked(): Promise<number>;
  /** The outcome of the last reload; null: none. */
  reloaded(): Promise<Reloaded | null>;
  /** Delivery health as an earlier boot left it. */
  books(): Promise<KeptHealth>;
  /**
   * Gives back the tasks that dead processes had claimed, and marks them isolated. A task that was alone in its
   * process has spent its attempt. `alive` are the boots that still run.
   */
  giveBack(alive: number[], now: number, crash?: CrashPolicy): Promise<GivenBack[]>;
  /** Whether an isolated task of one of these handlers waits for a process of its own. */
  isolatedDue(now: number, handlers: string[]): Promise<boolean>;
}

/** How a process died, and the consequence for a task that was alone in it. Absent: nothing saw the process die. */
export interface CrashPolicy {
  /** In words: exit code or signal, and the place if it is known. */
  how: string;
  after(handler: string, attempt: number, crashes: number): { delayMs: number; holdMs: number } | 'dead';
}

export interface GivenBack {
  handler: string;
  key: string;
  attempt: number;
  /** The task was the only one in its process. */
  alone: boolean;
  dead: boolean;
}
