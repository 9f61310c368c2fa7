// Which tasks the next turn makes: of what arrived, of what a handler missed while its file could not be loaded, and of
// reruns. Writes nothing: the turn does.
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import type { Logger, Seldom } from '../base/log.ts';
import { placeOf } from '../store/birth.ts';
import type { NewTask, StoredEvent, WorkStore, Turn, Unassigned } from '../store/work.ts';
import { isUnproven, tasksOf } from './assign.ts';
import type { Loaded } from './load.ts';

/** Events that one turn makes tasks of: few enough that a delivery never waits long for the store's lock. */
const EVENTS = 256;
/** Of a rerun: so few that an event that comes meanwhile waits for few of their commits. */
const RERUN = 64;

export interface FanOutOptions {
  store: Pick<WorkStore, 'unassigned' | 'missed' | 'rerun'>;
  handlers: Map<number, Loaded>;
  /** Handlers that waited, and the last event that each has its tasks of. */
  behind: Map<number, number>;
  windowMs: number;
  clock: Clock;
  log: Logger;
  seldom: Seldom;
  received: (at: number) => number;
  onLaneFault: ((handler: Loaded) => void) | undefined;
}

export interface Plan extends Pick<Turn, 'assign' | 'missed' | 'rerun'> {
  /** There may be more to make tasks of. */
  more: boolean;
  /** Tasks that wait for their window, and when the last of them is released; Unix milliseconds. */
  held: { tasks: number; until: number } | null;
  /** Tasks that wait for proof are among them. */
  asks: boolean;
}

export interface FanOut {
  plan(): Promise<Plan>;
  /** The turn has made them: how far that handler has its tasks; null: it is behind no longer. */
  moved(handler: number, to: number | null): void;
  /** Handlers that have all their tasks: those of the others would run before earlier ones are made. */
  ready(): number[];
}

export function createFanOut(options: FanOutOptions): FanOut {
  const { store, handlers, behind, windowMs, clock, log, seldom, received } = options;
  const assigning = {
    windowMs,
    received,
    onLaneFault(handler: Loaded, error: unknown): void {
      const more = seldom(`lane ${handler.name}`);
      if (more)
        log.error(
          { handler: handler.name, ...loggable(error), ...more },
          'lane function threw; using the session as lane',
        );
      options.onLaneFault?.(handler);
    },
  };

  function ready(): number[] {
    return [...handlers.keys()].filter((id) => !behind.has(id));
  }

  function only(ids: number[]): Map<number, Loaded> {
    return new Map([...handlers].filter(([id]) => ids.includes(id)));
  }

  /** Of each event. */
  function make(events: StoredEvent[], found: Unassigned, ids: number[], decided = false): NewTask[][] {
    const its = { ...assigning, handlers: only(ids), now: clock.now(), decided };
    return events.map((event) => tasksOf(event, found, its));
  }

  /** A page of what one handler missed: with the last it joins the others, in the same turn. */
  async function planMissed(found: Unassigned): Promise<NonNullable<Turn['missed']> | null> {
    const [next] = behind;
    if (!next) return null;
    const [handler, from] = next;
    const events = from < found.from ? await store.missed(from, found.from, EVENTS) : [];
    const upTo = events.length < EVENTS ? found.from : (events.at(-1)?.seq ?? found.from);
    return { handler, from, upTo, joins: upTo === found.from, tasks: make(events, found, [handler]).flat() };
  }

  async function planRerun(): Promise<NonNullable<Turn['rerun']> | null> {
    const page = await store.rerun(ready(), RERUN);
    const handler = page && handlers.get(page.handler);
    if (!handler) return null;
    const its = { ...assigning, handlers: new Map([[page.handler, handler]]), now: clock.now(), rerun: page.id };
    // All of it came long ago: no window to wait for, and its proof is the store's to find.
    const birth = { at: 0, reading: 'none', end: null, older: null, younger: null } as const;
    const from = { watermark: null, birth };
    return { page, tasks: page.events.flatMap((event) => tasksOf(event, from, its)) };
  }

  return {
    ready,
    async plan() {
      const found = await store.unassigned(EVENTS);
      const missed = await planMissed(found);
      const upTo = found.events.at(-1)?.seq ?? found.from;
      const joined = missed?.joins ? [...ready(), missed.handler] : ready();
      const made = make(found.events, found, joined);
      for (const [i, { key, type }] of found.events.entries())
        if (made[i]?.length === 0) log.debug({ key, type, verdict: 'unhandled' }, 'no handler wants it');
      // Those behind get theirs at once: what they missed is not looked through for it again.
      const late = make(found.decided, found, [...handlers.keys()], true);
      const tasks = [...made, ...late].flat();
      const undecided = found.events.flatMap((event) =>
        event.cursor !== null && placeOf(event, found.birth) === 'undecided'
          ? [{ event: event.seq, cursor: event.cursor }]
          : [],
      );
      const decided = found.decided.map(({ seq }) => seq);
      const full = found.events.length >= EVENTS || decided.length >= EVENTS;
      const rerun = full ? null : await planRerun();
      const now = clock.now();
      const waiting = tasks.filter(({ strict, releaseAt }) => !strict && releaseAt > now);
      const until = Math.max(...waiting.map((task) => task.releaseAt));
      return {
        assign:
          upTo === found.from && decided.length === 0 ? null : { from: found.from, upTo, tasks, undecided, decided },
        missed,
        rerun,
        more: full || rerun !== null || (missed !== null && (!missed.joins || behind.size > 1)),
        held: waiting.length > 0 ? { tasks: waiting.length, until } : null,
        asks: [...tasks, ...(missed?.tasks ?? [])].some((task) => isUnproven(task, found)),
      };
    },
    moved(handler, to) {
      behind.delete(handler);
      // Behind the others that wait: they take turns.
      if (to !== null) behind.set(handler, to);
    },
  };
}
