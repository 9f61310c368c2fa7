// A handler at work, as in production and in one process: real store (in memory), real intake, real runner, and a clock
// that jumps to whatever is waited for. A crash ends the process that never was: nothing of it reaches the store again.
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { createGroupCommit } from '../../receive/group-commit.ts';
import type { Handler } from '../../kit.ts';
import { checkHandler, type Loaded } from '../../run/load.ts';
import { startRunner, type Runner, type RunnerOptions } from '../../run/runner.ts';
import { startSolo } from '../../run/isolation.ts';
import { createService, endingWith } from '../../service/service.ts';
import { createRandom } from '../../base/random.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import type { ShownState, SqlRow, TurnResult } from '../../store/work.ts';
import type { ShownTask } from '../../store/read.ts';
import { compareCursors, type Cursor } from '../../wire/cursor.ts';
import { createClock, type TestClock } from './clock.ts';
import { readingOf, type Fixture } from './fixture.ts';
import { Crashed, recorder, type Call, type Recorder } from './recorder.ts';

export interface DeliverOptions {
  /** How often each event is delivered. Default: 1. */
  times?: number;
  /** Of the deliveries; numbers are positions in `events`. Default: as given. `shuffled` is the same each time. */
  order?: 'given' | 'reversed' | 'shuffled' | number[];
  /** Milliseconds between two deliveries, with the work done in between. Default: 0, all within the window. */
  apartMs?: number;
  /** The process dies as the handler's so many-th run ends, before its verdict is written, and starts again. */
  crashAfter?: number;
  /** Default: one that answers nothing. */
  service?: Recorder;
  /** Default: begins when the last of the events happened. */
  clock?: TestClock;
  /** As the file's name would be. Default: `handler`. */
  name?: string;
}

export interface TaskOutcome {
  key: string;
  state: ShownState;
  attempts: number;
  late: boolean;
  /** Of a failed attempt, or why it was skipped. */
  error: string | null;
}

export interface Outcome {
  /** In the order of arrival. */
  tasks: TaskOutcome[];
  /** What the handler asked of the service. */
  calls: Call[];
  /** On the same store: the handler's own tables, and the kit's. */
  query: (sql: string) => Promise<SqlRow[]>;
  log: Record<string, unknown>[];
}

const WINDOW_MS = 250;

/** Resolves when no task waits any more; one that is put off is waited for by setting the clock. */
export async function deliver<Type extends string>(
  handler: Handler<Type>,
  events: Fixture | Fixture[],
  options: DeliverOptions = {},
): Promise<Outcome> {
  const given = [events].flat();
  const { service = recorder(), apartMs = 0, name = 'handler' } = options;
  const clock = options.clock ?? createClock(Math.max(...given.map(({ createdAt }) => Date.parse(createdAt))));
  const store = openSqlite(':memory:', { owner: true });
  const log: Outcome['log'] = [];
  // Without its limit: the clock jumps, and nothing is to be spared.
  const loaded = { ...checkHandler(handler, name, true), rate: null };
  await store.setup((tx) => loaded.setup?.(tx));
  const machine = createMachine({ store, clock, service, handler: loaded, crashAfter: options.crashAfter, log });
  const groupCommit = createGroupCommit({ store, clock, onCommit: machine.wake });
  await machine.start();
  for (const event of arrange(given, options)) {
    await (event.type === 'kit.gap' ? raiseGap(store, event, clock) : groupCommit.accept(readingOf(event)));
    if (apartMs === 0) continue;
    clock.at += apartMs;
    await machine.work();
  }
  await prove(store, given, clock);
  await machine.finish();
  const tasks: ShownTask[] = [];
  for (let page = await store.tasks({ limit: 1_000 }, clock.now()); ;) {
    tasks.push(...page.tasks);
    if (page.next === null) break;
    page = await store.tasks({ limit: 1_000, before: page.next }, clock.now());
  }
  return {
    tasks: tasks
      .toSorted((a, b) => a.id - b.id)
      .map(({ key, state, attempts, late, error }) => ({ key, state, attempts, late, error })),
    calls: service.calls,
    log,
    async query(sql) {
      let rows: SqlRow[] = [];
      await store.setup((tx) => void (rows = tx.all(sql)));
      return rows;
    },
  };
}

function arrange(events: Fixture[], { times = 1, order = 'given' }: DeliverOptions): Fixture[] {
  const inOrder = Array.isArray(order) ? order.flatMap((position) => events[position] ?? []) : events;
  const all = inOrder.flatMap((event) => Array.from({ length: times }, () => event));
  if (order === 'reversed') return all.toReversed();
  if (order !== 'shuffled') return all;
  const random = createRandom(1);
  return all
    .map((event) => ({ event, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => event);
}

/** The kit raises it itself: no delivery brings one. */
async function raiseGap(store: Store, { data }: Fixture, clock: TestClock): Promise<void> {
  const { after, upTo, reason } = data as { after: Cursor; upTo: Cursor | null; reason: string };
  await store.accept({ readings: [], now: clock.now(), gap: { after, upTo, reason } });
}

/** As replay would: strict order waits for it. */
async function prove(store: Store, events: Fixture[], clock: TestClock): Promise<void> {
  const cursors = events.flatMap(({ cursor }) => cursor ?? []) as Cursor[];
  const [watermark] = cursors.toSorted(compareCursors).slice(-1);
  if (watermark) await store.accept({ readings: [], now: clock.now(), watermark });
}

interface MachineOptions {
  store: Store;
  clock: TestClock;
  service: Recorder;
  handler: Loaded;
  crashAfter: number | undefined;
  log: Outcome['log'];
}

/** What starts `run`, and starts it again when it has died. */
function createMachine({ store, clock, service, handler, crashAfter, log }: MachineOptions) {
  let runs = 0;
  let life = createLife();
  let runner: Runner | undefined;
  /** The last turn that was taken. */
  const last: { turn?: TurnResult | undefined } = {};

  async function start(): Promise<void> {
    // Ends the timers of the dead one; nothing of it reaches the store.
    void runner?.drain(0);
    life = createLife();
    const boot = await store.nextBoot();
    await store.giveBack([boot], clock.now());
    runner = await startRunner(optionsOf(boot));
  }

  function optionsOf(boot: number): RunnerOptions {
    const { live, die, over } = life;
    const handle: Loaded['handle'] = async (event, ctx) => {
      try {
        await handler.handle(event, ctx);
      } finally {
        if (++runs === crashAfter) await die();
      }
    };
    const fetch: Recorder['fetch'] = (...request) =>
      live(() =>
        service.fetch(...request).catch((error) => (error instanceof Crashed ? die() : Promise.reject(error))),
      );
    const client = createService({
      baseUrl: 'http://service.invalid/v1',
      apiKey: 'svc_test_of_a_test',
      paid: true,
      fetch,
    });
    const write = (line: string): void => void (over() || log.push(JSON.parse(line) as Record<string, unknown>));
    return {
      store: {
        ...mortal(store, live),
        turn: (given) => live(async () => (last.turn = await store.turn(given))),
      },
      handlers: [{ ...handler, handle }],
      serviceFor: (ends) => endingWith(client, ends),
      clock,
      log: pino({ level: 'debug' }, { write }),
      boot,
      concurrency: 32,
      windowMs: WINDOW_MS,
    };
  }

  /** Until nothing is at work or due. */
  async function work(): Promise<void> {
    for (;;) {
      if (life.over()) await start();
      if (await store.isolatedDue(clock.now(), [handler.name])) await workAlone();
      last.turn = undefined;
      runner?.wake();
      while (last.turn === undefined && !life.over()) await nextTick();
      const { claims = [], nextAt = null } = (last.turn ?? {}) as Partial<TurnResult>;
      const { unassigned, tasks } = await store.status(clock.now());
      const due = claims.length > 0 || (nextAt !== null && nextAt <= clock.now());
      if (!due && !life.over() && unassigned + tasks.running === 0) return;
      if (claims.length === 0) await sleep(1);
    }
  }

  /** Those that were at work when the process died, one at a time. */
  async function workAlone(): Promise<void> {
    const listeners = process.listeners('unhandledRejection');
    await Promise.race([startSolo(optionsOf(await store.nextBoot()), new AbortController().signal), life.died]);
    // It expects to be a process, and never takes its listener back.
    for (const one of process.listeners('unhandledRejection'))
      if (!listeners.includes(one)) process.off('unhandledRejection', one);
  }

  /** When something is due next: a release, a retry, or a turn alone. */
  async function nextTime(): Promise<number> {
    const { tasks } = await store.tasks({ state: 'ready', limit: 1_000 }, clock.now());
    const times = [last.turn?.nextAt ?? Infinity, ...tasks.map(({ dueAt }) => Date.parse(dueAt))];
    return Math.min(...times.filter((at) => at > clock.now()));
  }

  return {
    start,
    work,
    wake: () => runner?.wake(),
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
  over: () => boolean;
  died: Promise<void>;
  /** Never comes back to whoever called it. */
  die: () => Promise<never>;
  /** What is asked of a dead process, or comes back to one, is never heard of again. */
  live: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

function createLife(): Life {
  const never = new Promise<never>(() => {});
  const { promise: died, resolve } = Promise.withResolvers<void>();
  let over = false;
  return {
    over: () => over,
    died,
    die() {
      over = true;
      resolve();
      return never;
    },
    async live(work) {
      if (over) return never;
      const [settled] = await Promise.allSettled([work()]);
      if (over) return never;
      if (settled.status === 'rejected') throw settled.reason;
      return settled.value;
    },
  };
}

/** The store as a process sees it that may die. */
function mortal(store: Store, live: Life['live']): Store {
  const verbs = Object.entries(store) as [string, (...args: unknown[]) => Promise<unknown>][];
  const wrapped = verbs.map(([name, verb]) => [name, (...args: unknown[]) => live(() => verb(...args))]);
  return Object.fromEntries(wrapped);
}
