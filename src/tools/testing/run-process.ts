// A `run` process inside the test's own process: a real runner on a real store, which can crash and start again. The
// code of a running handler goes on after a crash, but its calls no longer reach the store or the service.
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { runIsolated } from '../../run/isolation.ts';
import type { Loaded } from '../../run/load-handlers.ts';
import type { RunOptions } from '../../run/runner-options.ts';
import { startRunner, type Runner } from '../../run/runner.ts';
import { createService, endingWith } from '../../service/service.ts';
import type { TurnResult, WorkStore } from '../../store/work.ts';
import type { TestClock } from './clock.ts';
import { Crashed, type Recorder } from './recorder.ts';
import type { TestStore } from './store.ts';
import { createTimeLimits } from './time-limits.ts';

const WINDOW_MS = 250;

export interface RunProcessOptions {
  store: TestStore;
  clock: TestClock;
  service: Recorder;
  handler: Loaded;
  /** The process crashes when the handler has run this many times. */
  crashAfter: number | undefined;
  log: Record<string, unknown>[];
}

// oxlint-disable-next-line max-lines-per-function -- start, crash and work share the runner and the last turn
export function createRunProcess({ store, clock, service, handler, crashAfter, log }: RunProcessOptions) {
  let runs = 0;
  let life = createLife();
  let limits = createTimeLimits(clock);
  let runner: Runner | undefined;
  const last: { turn?: TurnResult | undefined } = {};

  async function start(): Promise<void> {
    // Ends the timers of the runner that crashed.
    void runner?.drain(0);
    life = createLife();
    limits = createTimeLimits(clock);
    const boot = await store.processes.nextBoot();
    await store.processes.giveBack([boot], clock.now());
    runner = await startRunner(optionsOf(boot));
  }

  function optionsOf(boot: number): RunOptions {
    const { within, crash, hasCrashed } = life;
    const handle: Loaded['handle'] = async (event, ctx) => {
      try {
        await limits.within(handler.timeoutMs, () => handler.handle(event, ctx));
      } finally {
        if (++runs === crashAfter) await crash();
      }
    };
    const fetch: Recorder['fetch'] = (...request) =>
      within(() =>
        service.fetch(...request).catch((error) => (error instanceof Crashed ? crash() : Promise.reject(error))),
      );
    const client = createService({
      baseUrl: 'http://service.invalid/v1',
      apiKey: 'svc_test_of_a_test',
      paid: true,
      fetch,
    });
    const write = (line: string): void => {
      if (!hasCrashed()) log.push(JSON.parse(line) as Record<string, unknown>);
    };
    return {
      store: {
        ...storeWithin(life, store.work),
        turn: (given) => within(async () => (last.turn = await store.work.turn(given))),
      },
      handlers: [{ ...handler, handle }],
      serviceFor: (ends) => endingWith(client, ends),
      clock,
      log: pino({ level: 'debug' }, { write }),
      boot,
      concurrency: 32,
      windowMs: WINDOW_MS,
      tellsWhy: true,
    };
  }

  /** Takes turns until no task is running or due. */
  async function work(): Promise<void> {
    for (;;) {
      if (life.hasCrashed()) await start();
      if (await store.processes.isolatedDue(clock.now(), [handler.name])) await workIsolated();
      last.turn = undefined;
      runner?.wake();
      while (!last.turn && !life.hasCrashed()) await nextTick();
      const { claims = [], nextAt = null } = (last.turn ?? {}) as Partial<TurnResult>;
      const { events } = await store.work.pending(1);
      const { 'tasks.running': running = 0 } = await store.read.counters();
      const due = claims.length > 0 || (nextAt !== null && nextAt <= clock.now());
      if (!due && !life.hasCrashed() && events.length + running === 0) return;
      if (claims.length > 0) continue;
      await sleep(1);
      await limits.look(nextTime);
    }
  }

  /** Runs the tasks that were running at the crash, one at a time. */
  async function workIsolated(): Promise<void> {
    const options = optionsOf(await store.processes.nextBoot());
    const state = { ended: false };
    const isolated = Promise.race([runIsolated(options, new AbortController().signal), life.crashed]);
    void isolated.then(() => (state.ended = true));
    while (!state.ended) {
      await sleep(1);
      await limits.look(nextTime);
    }
  }

  /** The next time at which a waiting task is released or due. Infinity: no task waits for a time. */
  async function nextTime(): Promise<number> {
    const { tasks } = await store.read.tasks({ state: 'ready', limit: 1_000 }, clock.now());
    const times = [last.turn?.nextAt ?? Infinity, ...tasks.map(({ dueAt }) => Date.parse(dueAt))];
    return Math.min(...times.filter((at) => at > clock.now()));
  }

  return {
    start,
    work,
    wake: () => runner?.wake(),
    /** Works until no task waits. Whenever all tasks wait for a time, the clock jumps to the earliest time. */
    async finish(): Promise<void> {
      for (await work(); ; await work()) {
        const at = await nextTime();
        if (at === Infinity) break;
        clock.at = at;
      }
      await runner?.drain(0);
    },
  };
}

interface Life {
  hasCrashed: () => boolean;
  crashed: Promise<void>;
  /** Crashes the process. The promise never resolves. */
  crash: () => Promise<never>;
  /** Runs a call to the store or the service. After a crash, no new call starts, and open calls never resolve. */
  within: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

function createLife(): Life {
  const never = new Promise<never>(() => {});
  const { promise: crashed, resolve } = Promise.withResolvers<void>();
  let over = false;
  return {
    hasCrashed: () => over,
    crashed,
    crash() {
      over = true;
      resolve();
      return never;
    },
    async within(work) {
      if (over) return never;
      const [settled] = await Promise.allSettled([work()]);
      if (over) return never;
      if (settled.status === 'rejected') throw settled.reason;
      return settled.value;
    },
  };
}

function storeWithin({ within }: Life, store: WorkStore): WorkStore {
  const methods = Object.entries(store) as [string, (...args: unknown[]) => Promise<unknown>][];
  const wrapped = methods.map(([name, method]) => [name, (...args: unknown[]) => within(() => method(...args))]);
  return Object.fromEntries(wrapped);
}
