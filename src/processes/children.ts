// The processes beside the main one: `run`, `keep`, and `run-solo` for tasks whose process crashed. Reloads and
// restarts are queued, because two at once would each start a process.
import { envOfRun } from '../base/secrets.ts';
import type { Env } from '../config.ts';
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import type { Account } from './channel.ts';
import { createChild, type Child, type Fault } from './child.ts';
import { giveTasksBack, type Ended } from './crashes.ts';
import { createHandlerFaults } from './handler-faults.ts';
import { orNone } from '../store/or-none.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { Store } from '../store/store.ts';

/** Time limit for stopping the children. It is part of the 9 s that a stop may take; the store closes in the rest. */
export const STOP_MS = 8_500;
/** Interval between checks for an isolated task that is due. */
const ISOLATED_MS = 500;
/** A child that holds the store's lock is killed after this time without a sign of life. */
const SILENT_MS = 2_500;

const KEEP = {
  role: 'keep',
  entry: 'keep/main.ts',
  // Low memory matters more here than speed. Without these options, V8 would take far more memory for new objects and
  // be no faster.
  memory: ['--optimize-for-size', '--max-semi-space-size=1'],
};
const RUN = {
  entry: 'run/main.ts',
  // Events stay in memory for ORDER_WINDOW_MS. With a smaller young generation, V8 would promote them, and collecting
  // them would then be costly.
  memory: ['--max-semi-space-size=16'],
};

export interface ChildrenOptions {
  /** Only the demo and dev set these: --sandbox, and --inspect=<port>, which only `run` gets. */
  args: string[];
  /** Called at each start of a process. */
  env: () => Env;
  /** Undefined until the store is open. No child works before. */
  store: () => Store | undefined;
  /** The number of this instance, and whether it leads. Only then does `run` work. */
  standing: () => { instance: number; leads: boolean };
  log: Logger;
}

export type Children = ReturnType<typeof createChildren>;

// oxlint-disable-next-line max-lines-per-function -- wiring: how the processes wake and replace each other
export function createChildren({ args, env, store, standing, log }: ChildrenOptions) {
  const inTurn = createQueue();
  let ending = false;
  /** True: the store is lost, so nothing is written when a process ends. */
  let abandoned = false;
  let isolation: Loop | undefined;
  /** The new `run` of a reload, until it replaces the old one. */
  let next: Child | undefined;
  /** True: no process can load the code, for example after a slip in src/events.ts. */
  let unloadable = false;

  const noteFaults = createHandlerFaults(opened, log);
  const running = {
    ...RUN,
    env: () => envOfRun(env()),
    standing,
    log,
    boot: () => retryWhileBusy(() => opened().processes.nextBoot()),
  };

  const keep = createChild({
    ...KEEP,
    env,
    standing,
    log,
    // `keep` claims no tasks, and must start even if the store is locked.
    boot: async () => 0,
    onWake: () => run.wake(),
    onExit: () => forget('keep'),
  });
  const createRun = (): Child =>
    createChild({
      ...running,
      args,
      role: 'run',
      prepares: true,
      onWake: () => keep.wake(),
      onFaults: (faults) => void noteFaults(faults, true),
      onExit: (unexpected, exit) => runEnded({ role: 'run', unexpected, exit }),
    });
  let run = createRun();
  const solo = createChild({
    ...running,
    role: 'run-solo',
    args: ['solo', ...args.filter((arg) => !arg.startsWith('--inspect'))],
    lasting: false,
    without: () => run.broken(),
    onExit: (_, exit) => runEnded({ role: 'run-solo', unexpected: false, exit }),
  });
  const all = (): Child[] => [run, solo, keep, ...(next ? [next] : [])];

  function opened(): Store {
    const open = store();
    if (!open) throw new Error('the store is not open yet');
    return open;
  }

  async function runEnded(ended: Ended): Promise<void> {
    const open = store();
    if (!open || abandoned) return;
    await giveTasksBack(ended, [run, solo], { store: open, log });
    await forget(ended.role);
  }

  /** Removes a process's sign of life. If the store cannot be written, the sign expires in a few seconds anyway. */
  async function forget(role: string): Promise<void> {
    if (!abandoned) await orNone(() => opened().processes.gone(role));
  }

  async function startKeep(): Promise<void> {
    if (ending) return;
    const problems = textsOf(await keep.start());
    if (problems.length > 0) log.error({ problems }, 'keep cannot start; retrying. Fix the problems in this line');
  }

  /**
   * Loads the handlers in a new `run` beside the one at work, and replaces that one only if there are no faults. Two
   * never work at once. Resolves with the faults.
   */
  async function reload(): Promise<string[]> {
    if (ending) return [];
    next = createRun();
    const faults = await next.prepare();
    unloadable = faults.some(({ file }) => file === null);
    if (faults.length > 0 || ending) {
      await next.stop(STOP_MS);
      next = undefined;
      await noteFaults(faults, false);
      return textsOf(faults);
    }
    await run.stop(STOP_MS);
    run = next;
    next = undefined;
    return ending || !standing().leads ? [] : textsOf(await run.start());
  }

  /** Each task whose process crashed runs alone, in a process of its own. Other tasks go on. */
  async function runIsolated(): Promise<void> {
    if (
      !standing().leads ||
      solo.pid() !== undefined ||
      !(await opened().processes.isolatedDue(opened().now(), names()))
    )
      return;
    const problems = textsOf(await solo.start());
    if (problems.length > 0) log.error({ problems }, 'the process for isolated tasks cannot start');
  }

  function names(): string[] {
    return run.handlers().map(({ name }) => name);
  }

  async function end(limitMs: number): Promise<void> {
    ending = true;
    await Promise.all([isolation?.stop(), ...all().map((child) => child.stop(limitMs))]);
  }

  return {
    /**
     * Loads the handlers in `run`, so that their code never runs in the process that accepts deliveries. Resolves with
     * their faults.
     */
    load: async () => textsOf(await run.load()),
    /**
     * Runs the setups and, without faults and if this instance leads, starts `run`. Resolves with the faults that prevent
     * the start, or with none.
     */
    async start(): Promise<Fault[]> {
      const faults = await run.prepare();
      return faults.length > 0 || !standing().leads ? faults : run.start();
    },
    /** This instance leads from now on. */
    lead: () =>
      inTurn(async () => {
        if (ending || !standing().leads) return;
        keep.lead();
        const faults = textsOf(await run.start());
        if (faults.length > 0) log.error({ faults }, 'run cannot start; retrying. Fix the faults in this line');
      }),
    /** This instance no longer leads: what runs is killed, because another instance may run it already. */
    standBy: () =>
      inTurn(async () => {
        await Promise.all([run, solo, keep].map((child) => child.stop(0)));
        await startKeep();
        run = createRun();
        if (!ending) await run.prepare();
      }),
    /** Starts `keep`, and from now on `run-solo` whenever an isolated task is due. */
    startRest() {
      isolation = startLoop(() => orNone(runIsolated).then(() => ISOLATED_MS));
      void inTurn(startKeep);
    },
    /** The boots of the processes that run handlers. */
    boots: () => [run, solo].flatMap((child) => child.boot() ?? []),
    wake: () => (standing().leads ? run.wake() : store()?.ring()),
    processes: () => ({ run: lifeOf(run), keep: lifeOf(keep) }),
    /** Sends `keep` the state of the main process. */
    report: (account: Account) => keep.send({ type: 'account', account }),
    /** The names of the handlers that `run` has loaded. */
    handlers: names,
    /** Warnings about them. */
    warnings: () => run.notes(),
    reload: () => inTurn(reload),
    restartKeep: () =>
      inTurn(async () => {
        if (unloadable) return;
        if (!ending) await keep.stop(STOP_MS);
        await startKeep();
      }),
    /** Kills all children for good, because the file that they have open is no longer the store. */
    async kill() {
      abandoned = true;
      await end(0);
    },
    /** Kills the child with this process id if it gives no sign of life. */
    endIfSilent(pid: number) {
      for (const child of all()) if (child.pid() === pid) child.endIfSilent(SILENT_MS);
    },
    /** Stops all children for good: SIGTERM, then SIGKILL after the limit. */
    stop: (limitMs = STOP_MS) => end(limitMs),
  };
}

function lifeOf(child: Child): 'up' | 'down' {
  return child.boot() === null ? 'down' : 'up';
}

/** Runs each piece of work after the one before it has ended. */
function createQueue() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last.then(work);
    last = result;
    return result;
  };
}

function textsOf(faults: Fault[]): string[] {
  return faults.map(({ fault }) => fault);
}
