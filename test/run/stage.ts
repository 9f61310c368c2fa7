// Shared by the tests of the runner: a runner on a real store. Tests set the clock; only the turns need real time.
import { onTestFinished } from 'vitest';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { RunOptions } from '../../src/run/runner-options.ts';
import { startRunner, type Runner } from '../../src/run/runner.ts';
import type { Store } from '../../src/store/store.ts';
import type { ShownState } from '../../src/store/work.ts';
import { createClock, createLines, createStore, delivery, handlerOf, noService, until, type Sent } from './fixture.ts';

interface Stage {
  store: Store;
  clock: ReturnType<typeof createClock>;
  lines: Record<string, unknown>[];
  runner: Runner;
  accept: (...sent: Sent[]) => Promise<void>;
  /** Advances the clock by `ms` and wakes the runner. */
  pass: (ms: number) => void;
  tasks: () => Promise<Record<ShownState, number>>;
  /** Resolves when all events were fanned out, and no task is running or due. */
  rest: () => Promise<void>;
}

/** Starts a runner, which is drained when the test has ended. */
export async function stage(
  handlers: Partial<Loaded>[],
  options: Partial<RunOptions> = {},
  store = createStore(),
): Promise<Stage> {
  const clock = createClock();
  const { log, lines } = createLines();
  const runner = await startRunner({
    store: store.work,
    handlers: handlers.map((handler) => handlerOf(handler)),
    serviceFor: noService,
    clock,
    log,
    boot: 1,
    concurrency: 32,
    windowMs: 250,
    ...options,
  });
  let drained = false;
  const drain = runner.drain.bind(runner);
  runner.drain = async (limitMs) => {
    drained = true;
    await drain(limitMs);
  };
  onTestFinished(async () => {
    if (!drained) await drain(0);
  });
  return {
    store,
    clock,
    lines,
    runner,
    async accept(...sent) {
      await store.ingest.accept({ readings: sent.map(delivery), now: clock.now() });
      runner.wake();
    },
    pass(ms) {
      clock.at += ms;
      runner.wake();
    },
    tasks: async () => (await store.read.status(clock.now())).tasks,
    async rest() {
      await until(async () => {
        const { unassigned, tasks } = await store.read.status(clock.now());
        if (unassigned > 0 || tasks.running > 0) return false;
        const { tasks: waiting } = await store.read.tasks({ state: 'ready', limit: 1_000 }, clock.now());
        return waiting.every(({ dueAt }) => Date.parse(dueAt) > clock.now());
      }, 'the runner to rest');
    },
  };
}

/** A handler that notes the key of each event that it gets. */
export function noting(fields: Partial<Loaded> = {}): { handler: Partial<Loaded>; handled: string[] } {
  const handled: string[] = [];
  return { handler: { handle: (event) => void handled.push(event.key), ...fields }, handled };
}
