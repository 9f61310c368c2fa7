// Plans the tasks that the next turn creates: for new events, for reruns, and for events that a handler missed while
// its file was broken. The plan writes nothing, because the turn does.
import { loggable } from '../base/errors.ts';
import type { Throttle } from '../base/log.ts';
import { placeOf } from '../store/birth.ts';
import type { NewTask, StoredEvent, Turn, PendingEvents } from '../store/work.ts';
import { withLine } from './file-fault.ts';
import type { Loaded } from './load-handlers.ts';
import type { RunOptions } from './runner-options.ts';
import { isUnproven, NoLane, tasksOf, type TaskOptions } from './new-tasks.ts';

/** Maximum events per turn, so that a delivery never waits long for the store's lock. */
const EVENTS = 256;
/** Maximum events of a rerun per turn, so that a new event does not wait for many tasks of old ones. */
const RERUN = 64;
/** Used for events of a rerun: their window is over, and the store compares their cursors with the watermark. */
const LONG_AGO = { watermark: null, birth: { at: 0, reading: 'none', end: null, older: null, younger: null } } as const;

export interface FanOutOptions extends Pick<RunOptions, 'store' | 'windowMs' | 'clock' | 'log' | 'onLaneFault'> {
  handlers: Map<number, Loaded>;
  /** Handlers that missed events, each with the number of the last event for which it has its tasks. */
  behind: Map<number, number>;
  throttle: Throttle;
  received: TaskOptions['received'];
}

export interface Plan extends Required<Pick<Turn, 'fanOut' | 'missed' | 'rerun'>> {
  /** True: events may be left that have no tasks yet. */
  more: boolean;
  /** The number of tasks that wait for their window, and when the last of them is released, Unix milliseconds. */
  held: { tasks: number; until: number } | null;
  /** True: some of the planned tasks are strict and wait for the watermark. */
  asks: boolean;
}

/** The plan while the kit stops. */
export const NO_PLAN: Plan = { fanOut: null, missed: null, rerun: null, more: false, held: null, asks: false };

// oxlint-disable-next-line max-lines-per-function -- the three plans of a turn share the handlers that are behind
export function createFanOut(options: FanOutOptions) {
  const { store, handlers, behind, windowMs, clock, log, throttle, received } = options;

  async function plan(): Promise<Plan> {
    const pending = await store.pending(EVENTS);
    const missed = await planMissed(pending);
    const joined = missed?.joins ? [...ready(), missed.handler] : ready();
    const arrived = make(pending.events, pending, joined);
    for (const [i, { key, type }] of pending.events.entries())
      if (arrived[i]?.length === 0) log.debug({ key, type, verdict: 'unhandled' }, 'no handler wants it');
    // A handler that is behind gets tasks now for events that turned out to be new: its missed events do not have them.
    const late = make(pending.decided, pending, [...handlers.keys()], { decided: true });
    const tasks = [...arrived, ...late].flat();
    const full = pending.events.length >= EVENTS || pending.decided.length >= EVENTS;
    const rerun = full ? null : await planRerun();
    return {
      fanOut: fanOutPageOf(pending, tasks),
      missed,
      rerun,
      more: full || rerun !== null || (missed !== null && (!missed.joins || behind.size > 1)),
      held: heldOf(tasks, clock.now()),
      asks: [...tasks, ...(missed?.tasks ?? [])].some((task) => isUnproven(task, pending)),
    };
  }

  /**
   * A page of the events that one handler missed. With the last page the handler has caught up, so it also gets tasks
   * for the new events of this turn.
   */
  async function planMissed(pending: PendingEvents): Promise<Plan['missed']> {
    const [next] = behind;
    if (!next) return null;
    const [handler, from] = next;
    const owed = await store.owed(handler, EVENTS);
    if (owed.length > 0) {
      const tasks = make(owed, pending, [handler], { decided: true }).flat();
      return { handler, from, upTo: from, joins: false, tasks, owed: owed.map(({ seq }) => seq) };
    }
    const events = from < pending.from ? await store.missed(from, pending.from, EVENTS) : [];
    const upTo = events.length < EVENTS ? pending.from : (events.at(-1)?.seq ?? pending.from);
    return { handler, from, upTo, joins: upTo === pending.from, tasks: make(events, pending, [handler]).flat() };
  }

  async function planRerun(): Promise<Plan['rerun']> {
    const page = await store.rerun(ready(), RERUN);
    return page && { page, tasks: make(page.events, LONG_AGO, [page.handler], { rerun: page.id }).flat() };
  }

  /** One list of tasks for each event. */
  function make(
    events: StoredEvent[],
    from: Pick<PendingEvents, 'watermark' | 'birth'>,
    ids: number[],
    how: Pick<TaskOptions, 'decided' | 'rerun'> = {},
  ): NewTask[][] {
    const wanted = new Map([...handlers].filter(([id]) => ids.includes(id)));
    const its = { handlers: wanted, windowMs, now: clock.now(), received, onLaneFault, ...how };
    return events.map((event) => tasksOf(event, from, its));
  }

  function onLaneFault(handler: Loaded, error: unknown): void {
    const { name, file } = handler;
    const more = throttle(`lane ${name}`);
    const mistyped = error instanceof NoLane;
    const at = mistyped && file && { at: withLine(file, /\blane\b/) };
    const words = mistyped ? error.message : 'lane function threw';
    if (more)
      log.error({ handler: name, ...loggable(error, file), ...at, ...more }, `${words}; using the session as lane`);
    options.onLaneFault?.(handler);
  }

  /** Handlers that are not behind. A handler that is behind must not claim tasks before its earlier ones exist. */
  function ready(): number[] {
    return [...handlers.keys()].filter((id) => !behind.has(id));
  }

  return {
    plan,
    ready,
    /** Call it after the turn. `to` is the last event for which the handler has its tasks. Null: it has caught up. */
    moved(handler: number, to: number | null) {
      behind.delete(handler);
      // It goes to the end of the map, so that the handlers that are behind are served in rotation.
      if (to !== null) behind.set(handler, to);
    },
  };
}

function fanOutPageOf({ from, events, decided, birth }: PendingEvents, tasks: NewTask[]): Turn['fanOut'] {
  const upTo = events.at(-1)?.seq ?? from;
  if (upTo === from && decided.length === 0) return null;
  const undecided = events.flatMap((event) =>
    event.cursor !== null && placeOf(event, birth) === 'undecided' ? [{ event: event.seq, cursor: event.cursor }] : [],
  );
  return { from, upTo, tasks, undecided, decided: decided.map(({ seq }) => seq) };
}

function heldOf(tasks: NewTask[], now: number): Plan['held'] {
  const held = tasks.filter(({ strict, releaseAt }) => !strict && releaseAt > now);
  return held.length > 0 ? { tasks: held.length, until: Math.max(...held.map(({ releaseAt }) => releaseAt)) } : null;
}
