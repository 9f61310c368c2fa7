// The messages between the main process and its children, and the child's end of the channel. A child sends signs of
// life, follows orders, and ends as soon as the main process ends.
import { Worker } from 'node:worker_threads';
import type { Alarm } from '../store/read.ts';
import { StoreError } from '../store/store.ts';
import { ConfigError } from '../config.ts';
import { EXIT, throwUncaught } from '../base/errors.ts';
import { startOf } from '../base/process-start.ts';
import type { RetryPolicy } from '../base/retry-policy.ts';

/** From the main process to a child. */
export interface Orders {
  /** `prepare`: run the setups of the loaded handlers. */
  type: 'prepare' | 'go' | 'lead' | 'wake';
  /**
   * Unique for each start of a process that claims tasks. Claims carry it, so that no other process can settle them.
   */
  boot: number;
  /** The instance of the main process. */
  instance: number;
  /** Whether this instance leads. If not, `keep` only shows the state, until it gets `lead`. */
  leads: boolean;
}

type Life = 'up' | 'down';

/** The state of the main process. `keep` gets it by message and not through the store. */
export interface Account {
  processes: { receive: Life; run: Life; keep: Life };
  /** Alarms about the store, which the main process raises itself. */
  alarms: Alarm[];
  failureRun: number;
  /** The number of deliveries of the failure run, by the cause of their failure. */
  causes: Record<string, number>;
}

/** From the main process to `keep`. */
export interface Statement {
  type: 'account';
  account: Account;
}

/** How a handler's tasks are retried after a crash of their process. */
export interface LoadedHandler {
  name: string;
  retry: RetryPolicy;
  laneHoldMs: number;
}

/** Why a handler's file cannot be used. `fault` names the line if it is known. */
export interface FileFault {
  file: string;
  fault: string;
}

/** Why a process ends, unless the kit itself ends it. */
export interface ExitCause {
  code: number;
  /** The handler's line as `file:line`, if it is known. */
  at: string | null;
  /** By an exception, or by a call of `process.exit`. */
  how: 'threw' | 'exited';
  handler?: string;
  key?: string;
  /** The handler file whose loading or setup started the code that ends the process. */
  file?: string;
}

/** From a child to the main process. */
export type Report =
  /** Sent before a file is loaded or set up. If the process ends during that, this file ended it. */
  | { type: 'at'; file: string; stage: 'load' | 'setup' }
  | { type: 'loaded'; handlers: LoadedHandler[]; faults: FileFault[]; notes: string[] }
  | { type: 'prepared'; handlers: LoadedHandler[]; faults: FileFault[]; notes: string[] }
  /** `passes`: the same start may succeed later. */
  | { type: 'faults'; faults: string[]; passes?: boolean }
  | { type: 'exit cause'; cause: ExitCause }
  | { type: 'ready' }
  | { type: 'beat' }
  | { type: 'wake' };

const BEAT_MS = 1_000;

export function joinOwner() {
  endWithOwner();
  setInterval(() => void say({ type: 'beat' }), BEAT_MS);

  /** Resolves when the message was sent. A process that is about to exit waits for it. */
  function say(report: Report): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected) process.send?.(report, () => resolve());
      else resolve();
    });
  }

  async function giveUp(error: unknown): Promise<void> {
    // The configuration may have become faulty after the main process read it, for example the file of a secret. The
    // store may be locked now, or of another version than this code, which was updated while the main process runs.
    const isStore = error instanceof StoreError;
    if (!isStore && !(error instanceof ConfigError)) return throwUncaught(error);
    await say({ type: 'faults', faults: isStore ? [error.message] : error.faults, passes: isStore && error.passes });
    process.exit(isStore ? EXIT.unreachable : EXIT.configuration);
  }

  function on<Message extends Orders | Statement>(type: Message['type'], work: (message: Message) => void): void {
    process.on('message', (message: Message) => {
      if (message.type === type) work(message);
    });
  }

  return {
    self: { pid: process.pid, started: startOf(process.pid) },
    say,
    /** Runs `work` at the first order of this type. Later ones are ignored. */
    onOrder(type: 'prepare' | 'go', work: (order: Orders) => Promise<void>) {
      let begun = false;
      on<Orders>(type, (order) => {
        if (!begun) work(order).catch(giveUp);
        begun = true;
      });
    },
    /** Runs `work` at the first stop signal. Terminals and service managers may signal each process several times. */
    onStop(work: () => void) {
      let begun = false;
      const stop = (): void => {
        if (!begun) work();
        begun = true;
      };
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop);
    },
    onWake: (work: () => void) => on<Orders>('wake', work),
    onLead: (work: () => void) => on<Orders>('lead', work),
    onAccount: (work: (account: Account) => void) => on<Statement>('account', ({ account }) => work(account)),
    /** Runs `work` at once and then every two seconds. If it fails, the child goes on. */
    onBeat(work: () => Promise<void>) {
      const beat = (): void => void work().catch(() => {});
      beat();
      setInterval(beat, 2 * BEAT_MS);
    },
  };
}

export function endWithOwner(): void {
  // SIGKILL, because `process.exit` waits for threads of the runtime and may never end.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  // A handler that spins blocks this event loop, so another thread checks that the main process still runs.
  const code = `setInterval(() => process.ppid === ${process.ppid} || process.kill(${process.pid}, 'SIGKILL'), 200)`;
  new Worker(code, { eval: true, env: {}, execArgv: [] }).unref();
}
