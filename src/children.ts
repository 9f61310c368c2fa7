// The processes beside the main one: `run`, `keep`, and one that takes single tasks whose process died under them. They
// are started and stopped one after another, whoever asks for it: of two at once, each would start one of its own.
import type { Clock } from './clock.ts';
import type { Env } from './config.ts';
import type { Logger } from './log.ts';
import { startLoop, type Loop } from './loop.ts';
import { patiently } from './store/patiently.ts';
import { StoreError, type Store } from './store/store.ts';
import { createChild, type Child } from './supervisor.ts';

/** Of the 9 s that a stop may take; what is left is for the store to close. */
export const STOP_MS = 8_500;
/** Between two looks for a task whose process died. */
const SOLO_MS = 500;
/** A child that holds the store's lock and shows no life for so long is taken to spin. */
const SILENT_MS = 2_500;

export interface ChildrenOptions {
  /** From the demo and dev alone: --throwaway, and --inspect=<port>, which is for `run`. */
  args: string[];
  /** Asked at each start of a process. */
  env: () => Env;
  /** Undefined until it is open; nothing is started before. */
  store: () => Store | undefined;
  clock: Clock;
  log: Logger;
}

export interface Children {
  /** The handlers are read by `run`, so that their code never runs beside the acknowledgements. Resolves with their faults. */
  load(): Promise<string[]>;
  /** Lets `run` work. Resolves with what keeps it from that, or with nothing. */
  start(): Promise<string[]>;
  /** Starts `keep`, and from now on the process for single tasks whenever one is due. */
  startRest(): void;
  /** There are events for `run`. */
  wake(): void;
  /** The names of the handlers that `run` has loaded. */
  handlers(): string[];
  /** Reads the handlers again, beside the `run` at work, which is replaced where they have no faults. Resolves with those. */
  reload(): Promise<string[]>;
  restartKeep(): Promise<void>;
  /** All of them at once, for good: they have a file open that is the store no more. */
  kill(): Promise<void>;
  /** Ends the one of this pid where it shows no life. */
  endIfSilent(pid: number): void;
  /** All of them, for good: SIGTERM, then SIGKILL after the limit. */
  stop(limitMs?: number): Promise<void>;
}

export function createChildren({ args, env, store, clock, log }: ChildrenOptions): Children {
  let turn: Promise<unknown> = Promise.resolve();
  let ending = false;
  /** Nothing is written down any more of those that end. */
  let abandoned = false;
  let suspects: Loop | undefined;

  // It shows and fetches, and nobody waits for its speed.
  const keep = createChild({
    role: 'keep',
    memory: ['--optimize-for-size', '--max-semi-space-size=1'],
    entry: 'keep/main.ts',
    env,
    boot,
    log,
    onWake: () => run.wake(),
    onExit: () => gone('keep'),
  });
  // Events live for ORDER_WINDOW_MS: long enough to be promoted, and collected at a price, by a small young generation.
  const memory = ['--max-semi-space-size=16'];
  const createRun = (): Child =>
    createChild({
      role: 'run',
      memory,
      entry: 'run/main.ts',
      args,
      env,
      boot,
      log,
      onWake: () => keep.wake(),
      onExit: (unexpected) => runGone('run', unexpected),
    });
  let run = createRun();
  const solo = createChild({
    role: 'run-solo',
    memory,
    entry: 'run/main.ts',
    args: ['solo', ...args.filter((arg) => !arg.startsWith('--inspect'))],
    env,
    boot,
    log,
    lasting: false,
    onExit: () => runGone('run-solo', false),
  });

  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = turn.then(work);
    turn = result;
    return result;
  }

  async function restartOne(child: Child): Promise<void> {
    if (ending) return;
    await child.stop(STOP_MS);
    await go(child);
  }

  async function go(child: Child): Promise<void> {
    // One that was loaded already knows nothing of the end.
    if (ending) return child.stop(abandoned ? 0 : STOP_MS);
    const problems = await child.start();
    if (problems.length > 0) log.error({ problems }, 'cannot start; mend it, tried again');
  }

  function opened(): Store {
    const open = store();
    if (!open) throw new Error('the store is not open yet');
    return open;
  }

  function boot(): Promise<number> {
    return patiently(() => opened().nextBoot());
  }

  async function gone(role: string): Promise<void> {
    if (abandoned) return;
    await patiently(() => opened().gone(role));
  }

  async function runGone(role: 'run' | 'run-solo', unexpected: boolean): Promise<void> {
    if (!store() || abandoned) return;
    const alive = [run.boot(), solo.boot()].filter((one) => one !== null);
    const back = await patiently(() => opened().giveBack(alive, clock.now()));
    if (back > 0) log.warn({ role, tasks: back }, 'the tasks that a dead process was at are given back, and run alone');
    if (back > 0 || unexpected) await patiently(() => opened().note({ run_crashes: 1 }));
    await gone(role);
  }

  /** A task whose process died runs in one of its own, one at a time; the others go on. */
  async function watchSuspects(): Promise<number> {
    try {
      if (solo.pid() === undefined && (await opened().suspectDue(clock.now(), run.handlers()))) {
        const problems = await solo.start();
        if (problems.length > 0) log.error({ problems }, 'the process for single tasks cannot start');
      }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    return SOLO_MS;
  }

  return {
    load: () => run.load(),
    start: () => run.start(),
    startRest() {
      suspects = startLoop(watchSuspects);
      void inTurn(() => go(keep));
    },
    wake: () => run.wake(),
    handlers: () => run.handlers(),
    reload: () =>
      inTurn(async () => {
        if (ending) return [];
        const next = createRun();
        const faults = await next.load();
        if (faults.length > 0 || ending) {
          await next.stop(STOP_MS);
          return faults;
        }
        await run.stop(STOP_MS);
        run = next;
        await go(run);
        return [];
      }),
    restartKeep: () => inTurn(() => restartOne(keep)),
    async kill() {
      ending = true;
      abandoned = true;
      await Promise.all([suspects?.stop(), ...[run, solo, keep].map((child) => child.stop(0))]);
    },
    endIfSilent(pid) {
      for (const child of [run, solo, keep]) if (child.pid() === pid) child.endIfSilent(SILENT_MS);
    },
    async stop(limitMs = STOP_MS) {
      ending = true;
      await Promise.all([suspects?.stop(), ...[run, solo, keep].map((child) => child.stop(limitMs))]);
    },
  };
}
