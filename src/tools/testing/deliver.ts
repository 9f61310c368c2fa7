// Runs a handler as in production, but in one process, with a store in memory or on PostgreSQL (store.ts), the real
// group commit and the real runner. When all tasks wait for a time, the clock jumps to the earliest of these times.
import { describe } from '../../base/errors.ts';
import { createGroupCommit } from '../../receive/group-commit.ts';
import type { Handler } from '../../kit.ts';
import { checkHandler } from '../../run/load-handlers.ts';
import { runStep } from '../../run/steps.ts';
import { advised } from '../advice.ts';
import { createRandom } from '../random.ts';
import type { ShownState, SqlRow } from '../../store/work.ts';
import type { Gap } from '../../store/read.ts';
import { compareCursors, type Cursor } from '../../wire/cursor.ts';
import { createClock, type TestClock } from './clock.ts';
import { readingOf, type Fixture } from './fixture.ts';
import { recorder, type Call, type Recorder } from './recorder.ts';
import { createRunProcess } from './run-process.ts';
import { openTestStore, type OpenedStore, type TestStore } from './store.ts';

export interface DeliverOptions {
  /** How many times each event is delivered. Default: 1. */
  times?: number;
  /**
   * The order of the deliveries. Numbers are positions in `events`. Default: as given. `shuffled` is the same every
   * time.
   */
  order?: 'given' | 'reversed' | 'shuffled' | number[];
  /**
   * Milliseconds between two deliveries. Tasks that are due in between run. Default: 0, so that all events arrive
   * within the order window.
   */
  apartMs?: number;
  /**
   * The process crashes when the handler has run this many times, before the outcome of the last run is stored. Then
   * the process starts again.
   */
  crashAfter?: number;
  /** Default: a recorder without answers. */
  service?: Recorder;
  /** Default: a clock that starts when the newest event happened. */
  clock?: TestClock;
  /** The handler's name, which is normally its file's name. Default: `handler`. */
  name?: string;
}

export interface TaskOutcome {
  key: string;
  state: ShownState;
  attempts: number;
  late: boolean;
  /** The error of a failed attempt, or the reason why the task was skipped. */
  error: string | null;
}

export interface Outcome {
  /** In order of arrival. */
  tasks: TaskOutcome[];
  /** The calls that the handler made to the service. */
  calls: Call[];
  /** The rows of one `select` from the handler's own tables. */
  query: (sql: string) => Promise<SqlRow[]>;
  gaps: Gap[];
  log: Record<string, unknown>[];
}

const MOST_TASKS = 10_000;

/** Delivers the events, and resolves when no task waits. */
export async function deliver<Type extends string>(
  handler: Handler<Type>,
  events: Fixture | Fixture[],
  options: DeliverOptions = {},
): Promise<Outcome> {
  const opened = openTestStore();
  try {
    return await deliverTo(opened, handler, [events].flat(), options);
  } finally {
    opened.store.close();
  }
}

async function deliverTo<Type extends string>(
  { store, query }: OpenedStore,
  handler: Handler<Type>,
  given: Fixture[],
  options: DeliverOptions,
): Promise<Outcome> {
  const { service = recorder(), apartMs = 0, name = 'handler' } = options;
  const clock = options.clock ?? createClock(Math.max(...given.map(({ createdAt }) => Date.parse(createdAt))));
  const log: Outcome['log'] = [];
  // The handler's rate limit is off, because the clock jumps and there is no service to protect.
  const loaded = { ...checkHandler(handler, name, true), rate: null };
  for (const [index, step] of [loaded.setup ?? []].flat().entries())
    await store.work
      .setup((tx) => runStep(step, tx))
      .catch((cause: unknown) => {
        throw new Error(`setup of handler ${name} failed in step ${index + 1}: ${describe(cause).message}`, { cause });
      });
  const run = createRunProcess({ store, clock, service, handler: loaded, crashAfter: options.crashAfter, log });
  const groupCommit = createGroupCommit({
    store: { ...store.ingest, note: (...counts) => store.state.note(...counts) },
    clock,
    onCommit: run.wake,
  });
  await run.start();
  for (const event of arrange(given, options)) {
    await (event.type === 'kit.gap' ? raiseGap(store, event, clock) : groupCommit.accept(readingOf(event)));
    if (apartMs === 0) continue;
    clock.at += apartMs;
    await run.work();
  }
  await raiseWatermark(store, given, clock);
  await run.finish();
  const found = await store.read.tasks({ limit: MOST_TASKS }, clock.now());
  const tasks = found.tasks
    .toSorted((a, b) => a.id - b.id)
    .map(({ key, state, attempts, late, error }) => ({ key, state, attempts, late, error }));
  tellMistakes(log);
  await tellIfTestFails(tasks, [handler.on].flat(), given);
  return {
    tasks,
    calls: service.calls,
    log,
    query,
    gaps: await store.read.gaps(),
  };
}

/** Prints mistakes that change no outcome of a task. Otherwise a test passes without a word. */
function tellMistakes(log: Outcome['log']): void {
  const found = log.filter(({ msg }) => /^lane function |^failed after ctx\.complete/.test(String(msg)));
  const lines = found.map(
    ({ msg, why, at }) => `deliver: ${String(msg)}${(why ?? at) ? ` (${String(why ?? at)})` : ''}`,
  );
  if (lines.length > 0) console.error([...new Set(lines)].join('\n'));
}

/** If the test fails, its output shows the errors of tasks. A difference of states alone would not say why. */
async function tellIfTestFails(tasks: TaskOutcome[], on: string[], events: Fixture[]): Promise<void> {
  const lines = tasks.flatMap(({ key, state, attempts, error }) =>
    error === null ? [] : [`deliver: ${key} ${state}, attempt ${attempts}: ${advised(error)}`],
  );
  const types = [...new Set(events.map(({ type }) => type))].join(', ');
  if (tasks.length === 0) lines.push(`deliver: no task, because the handler is on ${on.join(', ')}, and got ${types}`);
  if (lines.length === 0) return;
  try {
    const { onTestFailed } = await import('vitest');
    onTestFailed(() => console.error(lines.join('\n')));
  } catch {
    // Another test runner, or a hook: only the outcome shows the errors.
  }
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

/** Stores a gap directly, because no delivery brings a gap. */
async function raiseGap(store: TestStore, { data }: Fixture, clock: TestClock): Promise<void> {
  const { after, upTo, reason } = data as { after: Cursor; upTo: Cursor | null; reason: string };
  await store.ingest.accept({ readings: [], now: clock.now(), gap: { after, upTo, reason } });
}

/** Raises the watermark as replay would, because strict tasks wait for it. */
async function raiseWatermark(store: TestStore, events: Fixture[], clock: TestClock): Promise<void> {
  const cursors = events.flatMap(({ cursor }) => cursor ?? []) as Cursor[];
  const [watermark] = cursors.toSorted(compareCursors).slice(-1);
  if (watermark) await store.ingest.accept({ readings: [], now: clock.now(), watermark });
}
