// Finds the handlers that want an event, and the lanes of their tasks. The user's functions are called before a turn,
// outside of every transaction. If a lane function throws or hangs, only the task of this event becomes a dead letter.
import type { FanOut, Look, NewTask, StoredEvent } from '../store/work.ts';
import { laneOf } from './event.ts';
import { within } from './limited.ts';
import { wants, type Loaded } from './load.ts';
import { textOf } from './outcome.ts';
import type { PoolOptions } from './pool.ts';
import { Scope } from './stray.ts';

/** `page`: for a whole page. If it is slower, each event is tried with each handler: `event` each, `alone` in all. */
const LIMIT_MS = { page: 1_000, event: 100, alone: 2_000 };

/** `upTo`: the last planned event, if planning the page took too long. Null: the whole page is planned. */
type Plan = { tasks: NewTask[][]; upTo: number | null };

type PlannerOptions = Pick<PoolOptions, 'handlers' | 'scopes' | 'cache' | 'clock'> & {
  /** True: this process is a restart, maybe because a schema in src/events.ts hung. Schemas then have a limit too. */
  careful: boolean;
};

export class Planner {
  readonly #options: PlannerOptions;

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  /** Finds the tasks for the events in `look`. Handlers at the same position share a page. */
  fanOut(look: Look): FanOut[] {
    return [...look.pages].flatMap(([from, { events, upTo }]) => {
      // On PostgreSQL, another instance may have loaded handlers that this one has not.
      const mine = look.handlers.filter(({ id }) => this.#options.handlers.has(id));
      const ids = mine.flatMap(({ id, position }) => (position === from ? id : []));
      const plan = this.#plan(ids, events);
      return ids.map((handler, n) => ({ handler, from, upTo: plan.upTo ?? upTo, tasks: plan.tasks[n] ?? [] }));
    });
  }

  /** A handler's tasks of a rerun, without those whose lane function fails. `passed`: how many events were tried. */
  again(handler: number, events: StoredEvent[]): { tasks: NewTask[]; passed: number } {
    const { tasks, upTo } = this.#plan([handler], events);
    const passed = upTo === null ? events.length : events.findIndex(({ seq }) => seq === upTo) + 1;
    return { tasks: tasks.flat().filter(({ dead }) => dead === undefined), passed };
  }

  #plan(ids: number[], events: StoredEvent[]): Plan {
    const handlers = ids.flatMap((id) => this.#options.handlers.get(id) ?? []);
    const wanted = events.filter(({ type }) => handlers.some((handler) => wants(handler, type)));
    if (wanted.length === 0) return { tasks: [], upTo: null };
    const find = (): NewTask[][] => ids.map((id) => this.#tasksOf(id, wanted));
    const isOwn = handlers.some(({ lane }) => typeof lane === 'function');
    if (!isOwn && !this.#options.careful) return { tasks: find(), upTo: null };
    const found = within(LIMIT_MS.page, find);
    return found === 'timeout' ? this.#alone(ids, wanted) : { tasks: found.result, upTo: null };
  }

  /** Tries each event with each handler under a limit of its own. */
  #alone(ids: number[], events: StoredEvent[]): Plan {
    const since = this.#options.clock.monotonic();
    const tasks = ids.map((): NewTask[] => []);
    for (const event of events) {
      for (const [n, id] of ids.entries()) {
        const found = within(LIMIT_MS.event, () => this.#tasksOf(id, [event]));
        tasks[n]?.push(...(found === 'timeout' ? [this.#hung(id, event)] : found.result));
      }
      if (this.#options.clock.monotonic() - since > LIMIT_MS.alone) return { tasks, upTo: event.seq };
    }
    return { tasks, upTo: null };
  }

  /** All events share one scope, because a scope costs as much as finding a lane. */
  #tasksOf(id: number, events: StoredEvent[]): NewTask[] {
    const handler = this.#options.handlers.get(id);
    if (!handler) return [];
    const find = (): NewTask[] =>
      events.flatMap((event) => (wants(handler, event.type) ? this.#taskOf(id, handler, event) : []));
    return this.#options.scopes.run(new Scope(handler.file, { handler: handler.name }), find);
  }

  #taskOf(id: number, handler: Loaded, event: StoredEvent): NewTask {
    const { seq, cursor, receivedAt } = event;
    try {
      return { handler: id, event: seq, cursor, receivedAt, lane: laneOf(handler, this.#options.cache.read(event)) };
    } catch (error) {
      return { ...this.#hung(id, event), dead: `its lane function failed: ${textOf(error, handler.file)}` };
    }
  }

  #hung(handler: number, { seq, cursor, receivedAt }: StoredEvent): NewTask {
    const dead = `its lane function, or a function of src/events.ts, did not return within ${LIMIT_MS.event} ms`;
    return { handler, event: seq, cursor, receivedAt, lane: null, dead };
  }
}
