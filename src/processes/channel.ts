// A process of the kit as it sees its owner: how `run` and `keep` say that they live, hear that there is work, and go
// at once when the main process goes.
import { Worker } from 'node:worker_threads';
import type { Alarm } from '../store/read.ts';
import { ConfigError } from '../config.ts';
import { EXIT } from '../base/errors.ts';
import { startOf } from '../base/process-start.ts';

/** From the owner to a child. */
export interface Orders {
  /** `prepare`: set up what was loaded. */
  type: 'prepare' | 'go' | 'wake';
  /** No process had this number before; it fences claims. */
  boot: number;
}

type Life = 'up' | 'down';

/** What the main process knows by itself, whatever the store says. */
export interface Account {
  processes: { receive: Life; run: Life; keep: Life };
  /** Those that it has raised itself, about the store. */
  alarms: Alarm[];
  failureRun: number;
  /** Of that run. */
  causes: Record<string, number>;
}

/** From the owner to `keep`. */
export interface Statement {
  type: 'account';
  account: Account;
}

/** What the owner needs of a handler to judge a task whose process died. */
export interface LoadedHandler {
  name: string;
  retry: { attempts: number; firstMs: number; maxMs: number };
  laneHoldMs: number;
}

/** Why a handler's file cannot be used, with its line where that is known. */
export interface FileFault {
  file: string;
  fault: string;
}

/** Of a process that ends by other hands than the kit's. */
export interface LastWords {
  code: number;
  /** `file:line` of the handler, where it is known. */
  at: string | null;
  /** It ends by an exception, and not by an exit. */
  threw: boolean;
  handler?: string;
  key?: string;
  /** Of the handler in whose loading it began. */
  file?: string;
}

/** From a child to its owner. */
export type Report =
  /** Said before it is begun: whatever ends the process then is this file's doing. */
  | { type: 'at'; file: string; stage: 'load' | 'setup' }
  | { type: 'loaded'; handlers: LoadedHandler[]; faults: FileFault[]; notes: string[] }
  | { type: 'prepared'; handlers: LoadedHandler[]; faults: FileFault[] }
  | { type: 'faults'; faults: string[] }
  | { type: 'last words'; words: LastWords }
  | { type: 'ready' }
  | { type: 'beat' }
  | { type: 'wake' };

export const BEAT_MS = 1_000;

export interface Owner {
  self: { pid: number; started: string };
  /** Resolves when it was said; a process that exits at once waits for that. */
  say(report: Report): Promise<void>;
  /** Runs it once, when the owner gives this order. */
  onOrder(type: 'prepare' | 'go', work: (orders: Orders) => Promise<void>): void;
  onWake(work: () => void): void;
  onAccount(work: (account: Account) => void): void;
  /** Also done with every sign of life; a failure is not a sign of death. */
  onBeat(work: () => Promise<void>): void;
}

export function joinOwner(): Owner {
  const self = { pid: process.pid, started: startOf(process.pid) };
  // Not by exit, which waits for threads of the runtime, and was seen to wait for ever.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  dieWithParent();
  const say = (report: Report): Promise<void> =>
    new Promise((resolve) => {
      if (process.connected) process.send?.(report, () => resolve());
      else resolve();
    });
  setInterval(() => void say({ type: 'beat' }), BEAT_MS);

  async function giveUp(error: unknown): Promise<void> {
    // A secret's file may have changed since the main process has read it.
    if (!(error instanceof ConfigError)) return void setImmediate(() => rethrow(error));
    await say({ type: 'faults', faults: error.faults });
    process.exit(EXIT.configuration);
  }

  return {
    self,
    say,
    onOrder(type, work) {
      let begun = false;
      process.on('message', (message: Orders) => {
        if (message.type !== type || begun) return;
        begun = true;
        work(message).catch(giveUp);
      });
    },
    onWake(work) {
      process.on('message', (message: Orders) => {
        if (message.type === 'wake') work();
      });
    },
    onAccount(work) {
      process.on('message', (message: Statement | Orders) => {
        if (message.type === 'account') work(message.account);
      });
    },
    onBeat(work) {
      const beat = (): void => void work().catch(() => {});
      beat();
      setInterval(beat, 2 * BEAT_MS);
    },
  };
}

/** Outside of a promise, whose rejection could be taken for a handler's. */
function rethrow(error: unknown): never {
  throw error;
}

/** A handler that spins keeps this loop from hearing that the owner is gone; a thread of its own hears it. */
function dieWithParent(): void {
  const code = `setInterval(() => process.ppid === ${process.ppid} || process.kill(${process.pid}, 'SIGKILL'), 200)`;
  new Worker(code, { eval: true, env: {}, execArgv: [] }).unref();
}
