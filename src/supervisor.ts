// One child process: started, watched, started again with growing pauses when it dies, stopped within a time limit.
import { spawn, type ChildProcess } from 'node:child_process';
import { getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Env } from './config.ts';
import type { Logger } from './log.ts';
import type { Orders, Report } from './process.ts';

/** A loop that has not turned for this long is killed; one that loads yet may take longer, on a machine that is busy. */
const STILL_MS = { loading: 60_000, working: 10_000 };
/** A debugger holds its loop, and a process that it is attached to does not end by itself. */
const DEBUGGED_STOP_MS = 1_000;
const PAUSE_MS = { first: 100, most: 30_000 };
/** A child that lived this long starts again without a pause. */
const HEALTHY_MS = 10_000;

/** Between two words to the same child: one costs as much as some deliveries. */
const WAKE_MS = 5;
/** How much less urgent a child is than the main process, and the least that there is. */
const NICE = 10;
const LEAST = 19;

export interface ChildOptions {
  role: string;
  /** How V8 shall keep its memory. */
  memory: string[];
  /** Relative to this file. */
  entry: string;
  args?: string[];
  /** Asked at each start. */
  env: () => Env;
  /** Asked at each start; the child waits for it before it works. */
  boot: () => Promise<number>;
  log: Logger;
  /** False for a child that ends by itself. */
  lasting?: boolean;
  onWake?: () => void;
  /** After each exit of one that was told to work, before the next start. */
  onExit?: (unexpected: boolean) => Promise<void>;
}

export interface Child {
  /** Resolves with faults that keep it from loading, or with none once it has loaded. Does not work yet. */
  load(): Promise<string[]>;
  /** Lets it work; loads it first if need be. Resolves with faults, or with none once it is ready. */
  start(): Promise<string[]>;
  wake(): void;
  /** SIGTERM, then SIGKILL after the limit; without one, SIGKILL. */
  stop(limitMs: number): Promise<void>;
  /** SIGKILL where it has shown no life for that long. */
  endIfSilent(ms: number): void;
  /** The names of the handlers that it has loaded. */
  handlers(): string[];
  /** Its number while it lives. */
  boot(): number | null;
  pid(): number | undefined;
}

export function createChild(options: ChildOptions): Child {
  const { role, log, lasting = true, args = [] } = options;
  const debugged = args.some((arg) => arg.startsWith('--inspect'));
  let child: ChildProcess | undefined;
  let boot: number | null = null;
  let wanted = false;
  let pauseMs = PAUSE_MS.first;
  let beatAt = 0;
  let wokenAt = -Infinity;
  let waking = false;
  let handlers: string[] = [];
  let exited = Promise.resolve();
  let report: (faults: string[], stage: 'loaded' | 'ready') => void = () => {};

  function spawnIt(): ChildProcess {
    const entry = fileURLToPath(new URL(options.entry, import.meta.url));
    const spawned = spawn(process.execPath, [...options.memory, entry, ...args], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: options.env(),
    });
    // The acknowledgements come first: a child must not keep the main process from the processor.
    if (spawned.pid !== undefined) setPriority(spawned.pid, Math.min(getPriority() + NICE, LEAST));
    const startedAt = performance.now();
    beatAt = startedAt;
    let lookedAt = startedAt;
    let limitMs = STILL_MS.loading;
    const watch = setInterval(() => {
      // Where we stood still ourselves, what it said waits to be read.
      const late = performance.now() - lookedAt > 2_000;
      lookedAt = performance.now();
      if (late) beatAt = lookedAt;
      if (debugged || performance.now() - beatAt < limitMs) return;
      log.error({ role, pid: spawned.pid }, `${role} stood still for ${limitMs / 1000} s and is killed`);
      spawned.kill('SIGKILL');
    }, 500);
    spawned.on('message', (message: Report) => {
      beatAt = performance.now();
      if (message.type === 'wake') options.onWake?.();
      if (message.type === 'faults') report(message.faults, 'ready');
      if (message.type === 'loaded') {
        handlers = message.handlers;
        limitMs = STILL_MS.working;
      }
      if (message.type === 'loaded' || message.type === 'ready') report([], message.type);
    });
    const gone = Promise.withResolvers<void>();
    exited = gone.promise;
    spawned.on('error', (error) =>
      log.error({ role, code: (error as NodeJS.ErrnoException).code }, `${role} cannot be started`),
    );
    spawned.on('close', (code, signal) => {
      clearInterval(watch);
      const worked = boot !== null;
      child = undefined;
      boot = null;
      report([`${role} ended with ${signal ?? `exit code ${code}`} before it was ready`], 'ready');
      if (lasting && wanted) log.error({ role, code, signal }, `${role} died and is started again`);
      if (performance.now() - startedAt > HEALTHY_MS) pauseMs = PAUSE_MS.first;
      const told = worked ? options.onExit?.(lasting && wanted) : undefined;
      void (told ?? Promise.resolve()).then(gone.resolve).then(comeBack);
    });
    return spawned;
  }

  async function comeBack(): Promise<void> {
    if (!lasting || !wanted) return;
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS.most);
    if (!wanted || child) return;
    const faults = await start();
    if (faults.length > 0 && wanted) log.error({ role, faults }, `${role} cannot start; mend it, tried again`);
  }

  function stage(name: 'loaded' | 'ready'): Promise<string[]> {
    return new Promise((resolve) => {
      report = (faults, reached) => {
        if (faults.length > 0 || reached === name || reached === 'ready') resolve(faults);
      };
    });
  }

  async function start(): Promise<string[]> {
    wanted = true;
    const mine = (child ??= spawnIt());
    const ready = stage('ready');
    const number = await options.boot();
    // One that was started in its place has another number, and a dead one none.
    if (child === mine) {
      boot = number;
      send({ type: 'go', boot });
    }
    const faults = await ready;
    // One that was stopped meanwhile has not failed.
    return wanted ? faults : [];
  }

  function send(orders: Orders): void {
    if (child?.connected) child.send(orders, () => {});
  }

  return {
    load() {
      child = spawnIt();
      return stage('loaded');
    },
    start,
    wake() {
      if (waking) return;
      waking = true;
      const since = performance.now() - wokenAt;
      const tell = (): void => {
        waking = false;
        wokenAt = performance.now();
        send({ type: 'wake', boot: boot ?? 0 });
      };
      if (since >= WAKE_MS) tell();
      else setTimeout(tell, WAKE_MS - since);
    },
    async stop(limitMs) {
      wanted = false;
      const stopping = child;
      if (!stopping) return;
      stopping.kill(limitMs > 0 ? 'SIGTERM' : 'SIGKILL');
      const timer = setTimeout(() => stopping.kill('SIGKILL'), debugged ? DEBUGGED_STOP_MS : limitMs);
      await exited;
      clearTimeout(timer);
    },
    endIfSilent(ms) {
      if (!child || debugged || performance.now() - beatAt < ms) return;
      beatAt = Infinity;
      log.error({ role, pid: child.pid }, `${role} shows no life while it holds the store's lock, and is killed`);
      child.kill('SIGKILL');
    },
    handlers: () => handlers,
    boot: () => boot,
    pid: () => child?.pid,
  };
}
