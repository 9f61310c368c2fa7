// A store in memory for tests of handlers and of the contract, on the same lane core and the same identity as any other.
// It has the roles that accept, order, run and reconcile. Nobody prunes, retries or erases in it.
import { iso } from '../../../base/clock.ts';
import { keptOf, type StateStore } from '../../../store/state.ts';
import type { StateKey } from '../../../store/ingest.ts';
import type { ProcessStore } from '../../../store/processes.ts';
import type { ReadStore, ShownEvent, ShownTask } from '../../../store/read.ts';
import type { Roles } from '../../../store/store.ts';
import { createData, type Data, type TaskRow } from './data.ts';
import { createIngest } from './ingest.ts';
import { createLanes } from './lanes.ts';
import { createReplay } from './replay.ts';
import { createTables } from './tables.ts';
import { createWatermark } from './watermark.ts';
import { createWork } from './work.ts';

type Known = Pick<ShownEvent, 'key' | 'id' | 'origin' | 'sessionId' | 'createdAt' | 'copies'>;

/** The part of a store that works: whatever accepts, orders, runs and reconciles, and what a test reads of it. */
export interface WorkingStore extends Pick<Roles, 'ingest' | 'work' | 'replay'> {
  state: Pick<StateStore, 'get' | 'note'>;
  processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'>;
  read: Pick<ReadStore, 'tasks' | 'counters' | 'gaps'> & {
    event(name: string, now: number): Promise<{ event: Known } | undefined>;
  };
  close(): void;
}

export function openMemory(): WorkingStore {
  const data = createData();
  const watermark = createWatermark(data);
  const ingest = createIngest(data, watermark);
  const tables = createTables();
  const { state, counters, gaps } = data;
  return {
    ingest,
    ...createWork(data, createLanes(data), tables),
    replay: createReplay(data, watermark, ingest),
    state: {
      get: async (name) => keptOf(name, state.get(name) ?? null),
      async note(counts, values = {}) {
        data.count(counts);
        for (const [name, value] of Object.entries(values)) state.set(name as StateKey, value);
      },
    },
    read: {
      async tasks({ state: wanted, limit, before = Infinity }, now) {
        const rows = [...data.tasks.values()].filter(({ id }) => id < before).toSorted((a, b) => b.id - a.id);
        const found = rows.map((row) => shown(row, data, now)).filter((task) => !wanted || task.state === wanted);
        const page = found.slice(0, limit);
        return { tasks: page, next: found.length > page.length ? (page.at(-1)?.id ?? null) : null };
      },
      counters: async () => Object.fromEntries([...counters].filter(([, value]) => value !== 0)),
      gaps: async () => gaps,
      async event(name) {
        const event = ingest.find(name);
        return event && { event };
      },
    },
    close: tables.close,
  };
}

function shown(row: TaskRow, data: Data, now: number): ShownTask {
  const { events, handlers, lanes } = data;
  const { id, attempts, late, error, claim, startedAt } = row;
  const { key = '', type = '', sessionId = null } = events[row.event - 1] ?? {};
  const dueAt = iso(Math.max(row.dueAt, row.releaseAt)) ?? '';
  const state = claim ? 'running' : isHeld(row, data, now) ? 'held' : row.state;
  const times = { dueAt, startedAt: iso(startedAt), finishedAt: null };
  const lane = lanes.get(row.lane ?? 0)?.name ?? null;
  const handler = handlers[row.handler - 1]?.name ?? '';
  return { id, key, type, sessionId, handler, lane, state, attempts, late, error, ...times };
}

/** A strict task is held until its lane or the watermark has passed it, any other until a task of its lane is released. */
function isHeld({ state, strict, alone, cursor, lane, releaseAt }: TaskRow, data: Data, now: number): boolean {
  if (state !== 'ready' || (strict && alone)) return false;
  const { finished = -1n, unproven = -1n, waiting = [] } = data.lanes.get(lane ?? 0) ?? {};
  const at = cursor ?? 0n;
  const isPassed = at <= finished || at <= unproven || at <= BigInt(data.cursor('watermark') ?? -1);
  if (strict) return !isPassed;
  if (releaseAt <= now) return false;
  return alone || !(isPassed || waiting.some((one) => !one.strict && (one.cursor ?? 0n) > at && one.releaseAt <= now));
}
