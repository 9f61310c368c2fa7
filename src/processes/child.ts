// One role of the kit as a process: it is loaded, started, restarted with growing pauses when it ends, and stopped
// within a time limit. A handler file that ends the process while it is loaded or set up is left out and named.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Env } from '../config.ts';
import type { Logger } from '../base/log.ts';
import { atMostEvery } from '../base/loop.ts';
import type { LoadedHandler, Orders, Statement } from './channel.ts';
import { crashedBy, howOf, type Exit } from './exit.ts';
import { NOTHING, spawnChild, type Failed, type Spawned, type SpawnOptions } from './spawn.ts';

/** A process with a debugger attached does not end by itself, so a stop kills it after this time. */
const DEBUGGED_STOP_MS = 1_000;
const PAUSE_MS = { first: 100, most: 30_000 };
/** A child that lived this long restarts after the shortest pause. */
const HEALTHY_MS = 10_000;
/** Minimum interval between wake messages; each costs as much as several deliveries. */
const WAKE_MS = 5;

/** A fault of a handler file. The child can work without the file. If `file` is null, the child cannot work at all. */
export interface Fault {
  file: string | null;
  fault: string;
  /** Set if the fault may pass by itself. */
  passes?: boolean;
}

export interface ChildOptions extends Pick<SpawnOptions, 'memory' | 'entry'> {
  role: string;
  args?: string[];
  /** Called at each start. */
  env: () => Env;
  /** Returns the number of this start, which claims carry. The child waits for it before it works. */
  boot: () => Promise<number>;
  /** The instance and whether it leads, at each start. */
  standing: () => Pick<Orders, 'instance' | 'leads'>;
  log: Logger;
  /** False: the child ends by itself and is not restarted. */
  lasting?: boolean;
  /** True: the child runs setups between loading and working. */
  prepares?: boolean;
  /** Files to leave out from the beginning. Called at each start. */
  without?: () => string[];
  onWake?: () => void;
  /** Called when the child goes to work, with the faults of the files that it leaves out. */
  onFaults?: (faults: Fault[]) => void;
  /** Called after each exit of a process that had begun to work, before the next start. */
  onExit?: (unexpected: boolean, exit: Exit) => Promise<void>;
}

export type Child = ReturnType<typeof createChild>;

// oxlint-disable-next-line max-lines-per-function -- every part depends on the current process and its end
export function createChild(options: ChildOptions) {
  const { role, log, lasting = true, prepares = false, args = [] } = options;
  const debugged = args.some((arg) => arg.startsWith('--inspect'));
  /** Each stop aborts this controller and creates a new one for the next start. */
  let period = new AbortController();
  let current: Spawned | undefined;
  /** Resolves to the exit of the last process, once `onExit` has ended. Undefined: it never began to work. */
  let gone: Promise<Exit | undefined> = Promise.resolve(undefined);
  let boot: number | null = null;
  let pauseMs = PAUSE_MS.first;
  /** Files that have crashed a process, each with its fault. The next process starts without them. */
  let skipped = new Map<string, string>();
  let broken: string[] = [];
  let handlers: LoadedHandler[] = [];

  function spawn(stopped: AbortSignal): Spawned {
    const without = [...new Set([...(options.without?.() ?? []), ...skipped.keys()])];
    const spawned = spawnChild({
      memory: options.memory,
      entry: options.entry,
      args: [...args, ...(without.length > 0 ? [`--without=${JSON.stringify(without)}`] : [])],
      env: options.env(),
      onWake: () => options.onWake?.(),
      onHung: (limitMs) =>
        log.error({ role, pid: spawned.pid }, `${role} blocked its event loop for ${limitMs / 1000} s; killing it`),
      onError: (error) => log.error({ role, code: (error as NodeJS.ErrnoException).code }, `${role} cannot be started`),
    });
    gone = spawned.ended.then((exit) => hasEnded(exit, stopped));
    return spawned;
  }

  async function hasEnded(exit: Exit, stopped: AbortSignal): Promise<Exit | undefined> {
    current = undefined;
    if (boot === null) return undefined;
    boot = null;
    const unexpected = lasting && !stopped.aborted;
    if (unexpected) log.error({ role, code: exit.code, signal: exit.signal }, `${role} died; restarting`);
    await options.onExit?.(unexpected, exit);
    return exit;
  }

  /**
   * Starts a process up to this stage. A file that ends the process on the way is left out, and the start is repeated.
   */
  async function reach(stage: 'loaded' | 'prepared', stopped: AbortSignal): Promise<{ at?: Spawned; faults: Fault[] }> {
    for (;;) {
      const spawned = (current ??= spawn(stopped));
      const reached = await spawned[stage]();
      const known = [...skipped].map(([file, fault]) => ({ file, fault }));
      if ('faults' in reached) {
        handlers = spawned.handlers();
        return { at: spawned, faults: [...known, ...reached.faults] };
      }
      await gone;
      if (stopped.aborted) return { faults: [] };
      const crash = 'exit' in reached ? crashedBy(reached.exit) : undefined;
      if (!crash || skipped.has(crash.file)) return { faults: [...known, ...problemsOf(role, reached)] };
      skipped.set(crash.file, crash.fault);
    }
  }

  /** Starts the work. Resolves with the faults that prevent it, or with none once the process is ready. */
  async function begin(stopped: AbortSignal): Promise<Fault[]> {
    const { at: spawned, faults } = await reach(prepares ? 'prepared' : 'loaded', stopped);
    if (!spawned || stopped.aborted) return faults.filter(({ file }) => file === null);
    const number = await options.boot();
    if (stopped.aborted) return [];
    // If the process has ended meanwhile, it never began to work, so `boot` stays null.
    if (current === spawned) boot = number;
    broken = faults.flatMap(({ file }) => file ?? []);
    options.onFaults?.(faults);
    const reached = await spawned.go({ boot: number, ...options.standing() });
    return 'faults' in reached || stopped.aborted ? [] : problemsOf(role, reached);
  }

  /** Restarts the process whenever it ends, until it is stopped. */
  async function restart(stopped: AbortSignal): Promise<void> {
    for (;;) {
      const exit = await gone;
      const healthy = exit !== undefined && exit.livedMs > HEALTHY_MS;
      if (healthy) pauseMs = PAUSE_MS.first;
      // A file that crashes the process now and then, for example by a lost connection, is loaded again. A file that
      // crashes it soon after the start is left out.
      const crash = exit && !healthy ? crashedBy(exit) : undefined;
      skipped = new Map(crash && [[crash.file, crash.fault]]);
      if (!lasting || stopped.aborted) return;
      await sleep(pauseMs, undefined, { signal: stopped }).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS.most);
      if (stopped.aborted) return;
      const faults = await begin(stopped);
      if (faults.length > 0 && !stopped.aborted)
        log.error(
          { role, faults: faults.map(({ fault }) => fault) },
          `${role} cannot start; retrying. Fix the faults in this line`,
        );
    }
  }

  return {
    /**
     * Loads the handlers, but does not start the work. Resolves with the faults: of files that are left out, or of the
     * process.
     */
    load: async () => (await reach('loaded', period.signal)).faults,
    /** Like `load`, and runs the setups as well. */
    prepare: async () => (await reach('prepared', period.signal)).faults,
    /**
     * Starts the work without the files that have faults, and restarts the process when it ends. Resolves with the
     * faults that prevent the first start, or with none once the process is ready.
     */
    start() {
      const { signal } = period;
      const first = begin(signal);
      void first.then(
        () => restart(signal),
        () => {},
      );
      return first;
    },
    wake: atMostEvery(WAKE_MS, () => current?.send({ ...NOTHING, type: 'wake' })),
    /** Tells the process that this instance leads from now on. */
    lead: () => current?.send({ ...NOTHING, type: 'lead' }),
    send: (statement: Statement) => current?.send(statement),
    /** Sends SIGTERM, and SIGKILL after the limit. A limit of 0 sends SIGKILL at once. */
    async stop(limitMs: number) {
      period.abort();
      period = new AbortController();
      const stopping = current;
      if (!stopping) return;
      stopping.kill(limitMs > 0 ? 'SIGTERM' : 'SIGKILL');
      const timer = setTimeout(() => stopping.kill('SIGKILL'), debugged ? DEBUGGED_STOP_MS : limitMs);
      await gone;
      clearTimeout(timer);
    },
    endIfSilent(ms: number) {
      if (current?.endIfSilent(ms))
        log.error(
          { role, pid: current.pid },
          `${role} gave no sign of life while it held the store's lock; killing it`,
        );
    },
    /** The handlers that were loaded last. */
    handlers: () => handlers,
    /** Warnings about them. */
    notes: () => current?.notes() ?? [],
    /** The handler files that the process at work left out. */
    broken: () => broken,
    /** The boot number of the process at work. Null: no process is at work. */
    boot: () => boot,
    pid: () => current?.pid,
  };
}

function problemsOf(role: string, failed: Failed): Fault[] {
  if ('refused' in failed)
    return failed.refused.map((fault) => ({ file: null, fault, ...(failed.passes && { passes: true }) }));
  return [{ file: null, fault: `${role} ended with ${howOf(failed.exit)} before it was ready` }];
}
