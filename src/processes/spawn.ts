// One process of the kit from start to end: the stages that it reports, its signs of life, and how it ended.
import { spawn } from 'node:child_process';
import { getPriority, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Env } from '../config.ts';
import type { FileFault, LoadedHandler, Orders, Report, Statement } from './channel.ts';
import type { Exit } from './exit.ts';

/**
 * A process whose event loop is blocked for this long is killed. A start may take longer, because the machine may be
 * busy.
 */
const HUNG_MS = { starting: 60_000, working: 10_000 };
const LOOK_MS = 500;
/** The fields of orders that need none of them. */
export const NOTHING = { boot: 0, instance: 0, leads: false };
/** The niceness of a child is this much above the main process's, up to the highest niceness that exists. */
const NICE = 10;
const LEAST = 19;

export interface SpawnOptions {
  memory: string[];
  /** Path relative to src. */
  entry: string;
  args: string[];
  env: Env;
  onWake: () => void;
  onHung: (limitMs: number) => void;
  onError: (error: Error) => void;
}

/**
 * `faults`: the stage was reached, and these files have faults. `refused`: it was not reached, because of faults that
 * concern no file; if it `passes`, a later start may succeed. `exit`: it was not reached, because the process ended.
 */
export type Reached = { faults: FileFault[] } | Failed;
export type Failed = { refused: string[]; passes: boolean } | { exit: Exit };

export type Spawned = ReturnType<typeof spawnChild>;

// oxlint-disable-next-line max-lines-per-function -- one process, whose messages, stages and end share their state
export function spawnChild({ memory, entry, args, env, onWake, onHung, onError }: SpawnOptions) {
  const debugged = args.some((arg) => arg.startsWith('--inspect'));
  const start = ['base/node/launch.js', entry].map((file) => fileURLToPath(new URL(`../${file}`, import.meta.url)));
  const child = spawn(process.execPath, [...memory, ...start, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env,
  });
  // A child must not take the processor from the main process, which answers the deliveries.
  if (child.pid !== undefined) setPriority(child.pid, Math.min(getPriority() + NICE, LEAST));

  const startedAt = performance.now();
  const stages = { loaded: stage(), prepared: stage(), ready: stage() };
  const ended = Promise.withResolvers<Exit>();
  let handlers: LoadedHandler[] = [];
  let notes: string[] = [];
  let cause: Exit['cause'];
  let at: Exit['at'];
  let hung = false;
  let beatAt = startedAt;
  let lookedAt = startedAt;
  let limitMs = HUNG_MS.starting;

  const watch = setInterval(() => {
    // If the event loop of this process was blocked, messages of the child may still be waiting to be read.
    if (performance.now() - lookedAt > 4 * LOOK_MS) beatAt = performance.now();
    lookedAt = performance.now();
    if (endIfSilent(limitMs)) onHung(limitMs);
  }, LOOK_MS);

  child.on('message', (message: Report) => {
    beatAt = performance.now();
    // The process itself has started, so the shorter limit applies.
    if (message.type === 'at' || message.type === 'loaded') limitMs = HUNG_MS.working;
    if (message.type === 'wake') onWake();
    else if (message.type === 'exit cause') cause = message.cause;
    else if (message.type === 'at') at = message;
    else if (message.type === 'faults') fail({ refused: message.faults, passes: message.passes ?? false });
    else if (message.type === 'ready') stages.ready.resolve({ faults: [] });
    else if (message.type === 'loaded' || message.type === 'prepared') {
      at = undefined;
      ({ handlers, notes } = message);
      stages[message.type].resolve({ faults: message.faults });
    }
  });
  // Only reports the error: the event `close` follows and ends the stages.
  child.on('error', onError);
  child.on('close', (code, signal) => {
    clearInterval(watch);
    const exit = { code, signal, cause, at, hung, livedMs: performance.now() - startedAt };
    fail({ exit });
    ended.resolve(exit);
  });

  function fail(failed: Failed): void {
    for (const each of Object.values(stages)) each.resolve(failed);
  }

  function send(message: Orders | Statement): void {
    if (child.connected) child.send(message, () => {});
  }

  /** Sends SIGKILL if there was no sign of life for this long. False: nothing was sent. */
  function endIfSilent(ms: number): boolean {
    // A breakpoint may stop the event loop for any time.
    if (debugged || performance.now() - beatAt < ms) return false;
    // Send it only once: the process may take a moment to end.
    beatAt = Infinity;
    hung = true;
    return child.kill('SIGKILL');
  }

  return {
    pid: child.pid,
    /** Resolves when the handlers are loaded, or when the process fails before. */
    loaded: () => stages.loaded.promise,
    /** Resolves when the setups have run as well. */
    async prepared() {
      const loaded = await stages.loaded.promise;
      if (!('faults' in loaded)) return loaded;
      send({ ...NOTHING, type: 'prepare' });
      return stages.prepared.promise;
    },
    /** Starts the work. Resolves when the process is ready. */
    go(order: Pick<Orders, 'boot' | 'instance' | 'leads'>) {
      send({ ...order, type: 'go' });
      return stages.ready.promise;
    },
    ended: ended.promise,
    /** The handlers that the process reported last. */
    handlers: () => handlers,
    /** Warnings about the handlers. */
    notes: () => notes,
    send,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    endIfSilent,
  };
}

function stage(): PromiseWithResolvers<Reached> {
  return Promise.withResolvers<Reached>();
}
