// One child process from its start to its end: what it reports, whether it shows life, and how it died.
import { spawn } from 'node:child_process';
import { getPriority, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Env } from '../config.ts';
import type { FileFault, LastWords, LoadedHandler, Orders, Report, Statement } from './channel.ts';

/** A loop that has not turned for this long is killed; one that starts may take longer, on a machine that is busy. */
const STILL_MS = { starting: 60_000, working: 10_000 };
/** How much less urgent a child is than the main process, and the least that there is. */
const NICE = 10;
const LEAST = 19;

export interface SpawnOptions {
  /** How V8 shall keep its memory. */
  memory: string[];
  /** Relative to this file. */
  entry: string;
  args: string[];
  env: Env;
  onWake: () => void;
  /** It is about to be killed. */
  onStill: (limitMs: number) => void;
  /** It could not be started. */
  onError: (error: Error) => void;
}

export interface Death {
  code: number | null;
  signal: NodeJS.Signals | null;
  words: LastWords | undefined;
  /** The file of a handler that it was loading or setting up. */
  at: { file: string; stage: 'load' | 'setup' } | undefined;
  /** It was killed, because it stood still. */
  still: boolean;
}

/** How a stage ended: reached, with the faults of files; given up, for faults of no file; or not reached. */
export type Reached = { faults: FileFault[] } | { refused: string[] } | { death: Death };

export interface Spawned {
  pid: number | undefined;
  startedAt: number;
  loaded: Promise<Reached>;
  prepared: Promise<Reached>;
  ready: Promise<Reached>;
  ended: Promise<Death>;
  /** As it has said last. */
  handlers(): LoadedHandler[];
  send(message: Orders | Statement): void;
  kill(signal: NodeJS.Signals): void;
  /** SIGKILL where it has shown no life for that long. False where it has. */
  endIfSilent(ms: number): boolean;
}

export function spawnChild(options: SpawnOptions): Spawned {
  const entry = fileURLToPath(new URL(`../${options.entry}`, import.meta.url));
  const debugged = options.args.some((arg) => arg.startsWith('--inspect'));
  const child = spawn(process.execPath, [...options.memory, entry, ...options.args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: options.env,
  });
  // The acknowledgements come first: a child must not keep the main process from the processor.
  if (child.pid !== undefined) setPriority(child.pid, Math.min(getPriority() + NICE, LEAST));

  const startedAt = performance.now();
  const stages = { loaded: stage(), prepared: stage(), ready: stage() };
  const ended = Promise.withResolvers<Death>();
  let handlers: LoadedHandler[] = [];
  let words: LastWords | undefined;
  let at: Death['at'];
  let still = false;
  let beatAt = startedAt;
  let lookedAt = startedAt;
  let limitMs = STILL_MS.starting;

  const watch = setInterval(() => {
    // Where we stood still ourselves, what it said waits to be read.
    const late = performance.now() - lookedAt > 2_000;
    lookedAt = performance.now();
    if (late) beatAt = lookedAt;
    if (debugged || performance.now() - beatAt < limitMs) return;
    still = true;
    options.onStill(limitMs);
    child.kill('SIGKILL');
  }, 500);

  child.on('message', (message: Report) => {
    beatAt = performance.now();
    // Its own start is over.
    if (message.type === 'at' || message.type === 'loaded') limitMs = STILL_MS.working;
    if (message.type === 'wake') options.onWake();
    else if (message.type === 'last words') words = message.words;
    else if (message.type === 'at') at = message;
    else if (message.type === 'faults') end({ refused: message.faults });
    else if (message.type === 'loaded' || message.type === 'prepared') {
      at = undefined;
      handlers = message.handlers;
      stages[message.type].resolve({ faults: message.faults });
    } else if (message.type === 'ready') stages.ready.resolve({ faults: [] });
  });
  // Its end follows.
  child.on('error', options.onError);
  child.on('close', (code, signal) => {
    clearInterval(watch);
    const death = { code, signal, words, at, still };
    end({ death });
    ended.resolve(death);
  });

  function end(reached: Reached): void {
    for (const one of Object.values(stages)) one.resolve(reached);
  }

  return {
    pid: child.pid,
    startedAt,
    loaded: stages.loaded.promise,
    prepared: stages.prepared.promise,
    ready: stages.ready.promise,
    ended: ended.promise,
    handlers: () => handlers,
    send(message) {
      if (child.connected) child.send(message, () => {});
    },
    kill: (signal) => void child.kill(signal),
    endIfSilent(ms) {
      if (debugged || performance.now() - beatAt < ms) return false;
      // Asked again before it has gone.
      beatAt = Infinity;
      still = true;
      return child.kill('SIGKILL');
    },
  };
}

function stage(): PromiseWithResolvers<Reached> {
  return Promise.withResolvers<Reached>();
}
