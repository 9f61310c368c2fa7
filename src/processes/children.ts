// The processes beside the main one: `run`, `keep`, and one that takes single tasks whose process died under them. They
// are started and stopped one after another, whoever asks for it: of two at once, each would start one of its own.
import type { Clock } from '../base/clock.ts';
import type { Env } from '../config.ts';
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { afterCrash } from '../base/backoff.ts';
import { addCrash } from './crashes.ts';
import type { Account, LoadedHandler } from './channel.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError, type Store } from '../store/store.ts';
import type { Death } from './child.ts';
import type { GivenBack } from '../store/processes.ts';
import { createChild, howOf, type Child, type Fault } from './supervisor.ts';

/** Of the 9 s that a stop may take; what is left is for the store to close. */
export const STOP_MS = 8_500;
/** Between two looks for a task whose process died. */
const SOLO_MS = 500;
/** A child that holds the store's lock and shows no life for so long is taken to spin. */
const SILENT_MS = 2_500;

/** Of the tasks that a process has died under. */
const NAMED = 20;

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
  /** Lets `run` work, where the set-ups have no fault either. Resolves with what keeps it from that, or with nothing. */
  start(): Promise<string[]>;
  /** Starts `keep`, and from now on the process for single tasks whenever one is due. */
  startRest(): void;
  /** There are events for `run`. */
  wake(): void;
  /** Which of them live. */
  processes(): Omit<Account['processes'], 'receive'>;
  /** Tells `keep` what the main process knows. */
  report(account: Account): void;
  /** The names of the handlers that `run` has loaded. */
  handlers(): string[];
  /**
   * Reads and sets up the handlers again, beside the `run` at work, which is replaced where they have no faults. Resolves
   * with those.
   */
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
  /** The `run` that may take the place of the other. */
  let next: Child | undefined;
  /** Faults of handlers' files as people were told of them. */
  let told = '';

  // It shows and fetches, and nobody waits for its speed.
  const keep = createChild({
    role: 'keep',
    memory: ['--optimize-for-size', '--max-semi-space-size=1'],
    entry: 'keep/main.ts',
    env,
    // It claims nothing, and must come up although the store is locked.
    boot: async () => 0,
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
      prepares: true,
      onWake: () => keep.wake(),
      onFaults: (faults) => void goWithout(faults),
      onExit: (unexpected, death) => runGone('run', unexpected, death),
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
    without: () => run.broken(),
    onExit: (_, death) => runGone('run-solo', false, death),
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
    const problems = textsOf(await child.start());
    if (problems.length > 0) log.error({ problems }, 'cannot start; retrying. Fix the error above');
  }

  /** For as long as they last, by an alarm. False where people were told of the same before. */
  async function noteFaults(faults: Fault[], waiting: boolean): Promise<boolean> {
    const files = JSON.stringify(faults.filter(({ file }) => file !== null));
    const news = `${waiting} ${files}`;
    if (news === told) return false;
    told = news;
    await retryWhileBusy(() => opened().note({}, { handler_faults: files }));
    return true;
  }

  async function goWithout(faults: Fault[]): Promise<void> {
    if (!(await noteFaults(faults, true)) || faults.length === 0) return;
    log.error(
      { faults: textsOf(faults) },
      'the handlers of these files wait until they can be loaded; the others go on',
    );
  }

  function opened(): Store {
    const open = store();
    if (!open) throw new Error('the store is not open yet');
    return open;
  }

  function boot(): Promise<number> {
    return retryWhileBusy(() => opened().nextBoot());
  }

  /** Where the store cannot be written, its sign of life is out of date in a few seconds all the same. */
  async function gone(role: string): Promise<void> {
    if (!abandoned) await ifStore(() => opened().gone(role));
  }

  async function ifStore<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return undefined;
    }
  }

  async function runGone(role: 'run' | 'run-solo', unexpected: boolean, death: Death): Promise<void> {
    if (!store() || abandoned) return;
    const alive = [run.boot(), solo.boot()].filter((one) => one !== null);
    const how = howOf(death);
    const crash = { how, after: afterCrash(policies()) };
    const back = await retryWhileBusy(() => opened().giveBack(alive, clock.now(), crash));
    if (back.length > 0) log.error({ role, how, ...namesOf(back) }, wordsOf(back));
    if (back.length > 0 || unexpected) {
      const crashes = addCrash((await ifStore(() => opened().crashes())) ?? [], back, how, clock.now());
      await retryWhileBusy(() => opened().note({ run_crashes: 1 }, { crashes: JSON.stringify(crashes) }));
    }
    await gone(role);
  }

  /** As they were loaded last: of those that ran, or are about to. */
  function policies(): Map<string, LoadedHandler> {
    return new Map([run, solo].flatMap((child) => child.handlers()).map((one) => [one.name, one]));
  }

  /** A task whose process died runs in one of its own, one at a time; the others go on. */
  async function watchSuspects(): Promise<number> {
    try {
      if (solo.pid() === undefined && (await opened().isolatedDue(clock.now(), names()))) {
        const problems = textsOf(await solo.start());
        if (problems.length > 0) log.error({ problems }, 'the process for single tasks cannot start');
      }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    return SOLO_MS;
  }

  function names(): string[] {
    return run.handlers().map(({ name }) => name);
  }

  return {
    load: async () => textsOf(await run.load()),
    async start() {
      const faults = await run.prepare();
      if (faults.length > 0) return textsOf(faults);
      return textsOf(await run.start());
    },
    startRest() {
      suspects = startLoop(watchSuspects);
      void inTurn(() => go(keep));
    },
    wake: () => run.wake(),
    processes: () => ({ run: run.boot() === null ? 'down' : 'up', keep: keep.boot() === null ? 'down' : 'up' }),
    report: (account) => keep.say({ type: 'account', account }),
    handlers: names,
    reload: () =>
      inTurn(async () => {
        if (ending) return [];
        next = createRun();
        const faults = await next.prepare();
        if (faults.length > 0 || ending) {
          await next.stop(STOP_MS);
          next = undefined;
          await noteFaults(faults, false);
          return textsOf(faults);
        }
        await run.stop(STOP_MS);
        run = next;
        next = undefined;
        return ending ? [] : textsOf(await run.start());
      }),
    restartKeep: () => inTurn(() => restartOne(keep)),
    async kill() {
      ending = true;
      abandoned = true;
      await Promise.all([suspects?.stop(), ...[run, solo, keep, next].map((child) => child?.stop(0))]);
    },
    endIfSilent(pid) {
      for (const child of [run, solo, keep, next]) if (child?.pid() === pid) child.endIfSilent(SILENT_MS);
    },
    async stop(limitMs = STOP_MS) {
      ending = true;
      await Promise.all([suspects?.stop(), ...[run, solo, keep, next].map((child) => child?.stop(limitMs))]);
    },
  };
}

function textsOf(faults: Fault[]): string[] {
  return faults.map(({ fault }) => fault);
}

/** The one task, in the fields that every line about an attempt has; of several, all that fit. */
function namesOf(tasks: GivenBack[]): object {
  const [one] = tasks;
  if (one && tasks.length === 1) return { handler: one.handler, key: one.key, attempt: one.attempt };
  return { tasks: tasks.length, atWork: tasks.slice(0, NAMED).map(({ handler, key }) => `${handler} ${key}`) };
}

function wordsOf([one, ...more]: GivenBack[]): string {
  if (more.length > 0) return 'a process died under these tasks; they are given back, and run alone';
  if (one?.dead) return 'its process died under this task too often; it is a dead letter: see npx kit explain';
  return 'its process died under this task; it is tried again, alone';
}
