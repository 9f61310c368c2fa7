// A store in memory for tests of handlers and of the contract, on the same lane core and the same identity as any other.
// It accepts, orders and runs, and shows what tests look at. Nobody reconciles, prunes, retries or erases in it, so its
// watermark only rises, and it has no history from before itself.
import { iso } from '../../../base/clock.ts';
import type { ProcessStore } from '../../../store/processes.ts';
import type { ReadStore, ShownEvent, ShownTask, TaskFilter } from '../../../store/read.ts';
import type { ReplayStore } from '../../../store/replay.ts';
import { keptOf, type StateStore } from '../../../store/state.ts';
import type { Roles } from '../../../store/store.ts';
import { isBehind, type Cursor } from '../../../wire/cursor.ts';
import { createIngest } from './ingest.ts';
import { createLanes, type TaskRow } from './lanes.ts';
import { createWork } from './work.ts';

type Event = Pick<ShownEvent, 'key' | 'id' | 'origin' | 'sessionId' | 'createdAt' | 'copies'>;
type Task = Pick<ShownTask, 'id' | 'key' | 'lane' | 'state' | 'attempts' | 'late' | 'error' | 'dueAt'>;
type Filter = Pick<TaskFilter, 'state' | 'before' | 'limit'>;

/** The part of a store that works: whatever accepts, orders and runs, and what a test reads of it. */
export interface WorkingStore extends Pick<Roles, 'ingest' | 'work'> {
  state: Pick<StateStore, 'get' | 'note'>;
  processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'>;
  replay: Pick<ReplayStore, 'newestCursor' | 'newestEvent'>;
  read: Pick<ReadStore, 'counters' | 'gaps'> & {
    event(name: string, now: number): Promise<{ event: Event } | undefined>;
    tasks(filter: Filter, now: number): Promise<{ tasks: Task[]; next: number | null }>;
  };
  close(): void;
}

export function openMemory(): WorkingStore {
  const ingest = createIngest();
  const { events, gaps, counters, state, note, accept, find } = ingest;
  const lanes = createLanes(ingest);

  function shown(row: TaskRow): Task {
    const { id, attempts, late, error } = row;
    const key = events[row.event - 1]?.key ?? '';
    const lane = lanes.laneOf(row.lane)?.name ?? null;
    const dueAt = iso(Math.max(row.dueAt, row.releaseAt)) ?? '';
    return { id, key, lane, state: lanes.stateOf(row), attempts, late, error, dueAt };
  }

  return {
    ingest: { accept: async (batch) => accept(batch), sync: async () => {} },
    ...createWork(ingest, lanes),
    state: {
      get: async (name) => keptOf(name, state.get(name) ?? null),
      note: async (...given) => note(...given),
    },
    replay: {
      newestCursor: async () => events.reduce<Cursor | null>((a, { cursor: b }) => (isBehind(a, b) ? b : a), null),
      newestEvent: async () => events.length,
    },
    read: {
      async event(name) {
        const event = find(name);
        return event && { event };
      },
      async tasks({ state: wanted, limit, before = Infinity }) {
        const rows = [...lanes.tasks.values()].filter(({ id }) => id < before).toSorted((a, b) => b.id - a.id);
        const found = rows.map(shown).filter((task) => !wanted || task.state === wanted);
        const page = found.slice(0, limit);
        return { tasks: page, next: found.length > page.length ? (page.at(-1)?.id ?? null) : null };
      },
      counters: async () => Object.fromEntries(counters),
      gaps: async () => gaps,
    },
  };
}
