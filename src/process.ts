// A process of the kit as it sees its owner: how `run` and `keep` say that they live, hear that there is work, and go
// at once when the main process goes.
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { Up } from './board.ts';
import { ConfigError } from './config.ts';
import { EXIT } from './errors.ts';

/** From the owner to a child. */
export interface Orders {
  type: 'go' | 'wake';
  /** No process had this number before; it fences claims. */
  boot: number;
}

type Life = 'up' | 'down';

/** What the main process knows by itself, whatever the store says. */
export interface Account {
  processes: { receive: Life; run: Life; keep: Life };
  /** Those that it has raised itself, about the store. */
  alarms: Up[];
  failureRun: number;
  /** Of that run. */
  causes: Record<string, number>;
}

/** From the owner to `keep`. */
export interface Statement {
  type: 'account';
  account: Account;
}

/** From a child to its owner. */
export type Report =
  | { type: 'loaded'; handlers: string[] }
  | { type: 'faults'; faults: string[] }
  | { type: 'ready' }
  | { type: 'beat' }
  | { type: 'wake' };

export const BEAT_MS = 1_000;

export interface Owner {
  self: { pid: number; started: string };
  /** Resolves when it was said; a process that exits at once waits for that. */
  say(report: Report): Promise<void>;
  /** Runs it once, when the owner gives this order. */
  orders(work: (orders: Orders) => Promise<void>): Promise<void>;
  onWake(work: () => void): void;
  onAccount(work: (account: Account) => void): void;
  /** Also done with every sign of life; a failure is not a sign of death. */
  onBeat(work: () => Promise<void>): void;
}

export function joinOwner(): Owner {
  const self = { pid: process.pid, started: startOf(process.pid) };
  process.on('disconnect', () => process.exit(EXIT.failed));
  dieWithParent();
  const say = (report: Report): Promise<void> =>
    new Promise((resolve) => {
      if (process.connected) process.send?.(report, () => resolve());
      else resolve();
    });
  setInterval(() => void say({ type: 'beat' }), BEAT_MS);
  return {
    self,
    say,
    async orders(work) {
      const orders = await new Promise<Orders>((resolve) => {
        process.on('message', (message: Orders) => {
          if (message.type === 'go') resolve(message);
        });
      });
      try {
        await work(orders);
      } catch (error) {
        // A secret's file may have changed since the main process has read it.
        if (!(error instanceof ConfigError)) throw error;
        await say({ type: 'faults', faults: error.faults });
        process.exit(EXIT.configuration);
      }
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

/** The kernel's start time of a process, so that a reused pid is not taken for it; empty where that is not known. */
export function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may hold spaces; the 20th field behind it is the start time.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}

/** A handler that spins keeps this loop from hearing that the owner is gone; a thread of its own hears it. */
function dieWithParent(): void {
  const code = `setInterval(() => process.ppid === ${process.ppid} || process.kill(${process.pid}, 'SIGKILL'), 200)`;
  new Worker(code, { eval: true, env: {}, execArgv: [] }).unref();
}
