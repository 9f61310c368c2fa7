// A store in memory for tests, on the lane core. It accepts, orders and runs, but reconciles, prunes and erases nothing.
import { iso } from '../../../base/clock.ts';
import type { Batch } from '../../../store/ingest.ts';
import type { TaskFilter } from '../../../store/read.ts';
import { keptOf, type KeptState } from '../../../store/state.ts';
import { isBehind, type Cursor } from '../../../wire/cursor.ts';
import { createIngest } from './ingest.ts';
import { createLanes, type TaskRow } from './lanes.ts';
import { createWork } from './work.ts';

export type MemoryStore = ReturnType<typeof openMemory>;

export function openMemory() {
  const ingest = createIngest();
  const { events, gaps, counters, state, note, accept, find } = ingest;
  const lanes = createLanes(ingest);

  function shown(row: TaskRow) {
    const { id, attempts, late, error } = row;
    const lane = lanes.laneOf(row.lane)?.name ?? null;
    const dueAt = iso(Math.max(row.dueAt, row.releaseAt)) ?? '';
    return { id, key: events[row.event - 1]?.key ?? '', lane, state: lanes.stateOf(row), attempts, late, error, dueAt };
  }

  return {
    ingest: { accept: async (batch: Batch) => accept(batch), sync: async () => {} },
    ...createWork(ingest, lanes),
    state: {
      get: async <Name extends keyof KeptState>(name: Name) => keptOf(name, state.get(name) ?? null),
      note: async (...given: Parameters<typeof note>) => note(...given),
    },
    replay: {
      newestCursor: async () => events.reduce<Cursor | null>((a, { cursor: b }) => (isBehind(a, b) ? b : a), null),
    },
    keep: { newestEvent: async () => events.length },
    read: {
      async event(name: string) {
        const event = find(name);
        return event && { event };
      },
      async tasks({ state: wanted, limit, before = Infinity }: Pick<TaskFilter, 'state' | 'before' | 'limit'>) {
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
