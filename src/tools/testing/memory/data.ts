// What the store in memory holds.
import { systemClock } from '../../../base/clock.ts';
import type { Birth } from '../../../store/birth.ts';
import type { Counts, StateKey, StateValue } from '../../../store/ingest.ts';
import type { LaneRow } from '../../../store/lanes/lane.ts';
import type { Waiting } from '../../../store/lanes/waiting.ts';
import type { Gap } from '../../../store/read.ts';
import type { Claim, StoredEvent, TaskState } from '../../../store/work.ts';
import type { Cursor } from '../../../wire/cursor.ts';
import type { Origin } from '../../../wire/event.ts';

export interface EventRow extends StoredEvent {
  body: Uint8Array;
  digest: null;
  conflicting: 0 | 1;
  /** Further deliveries of the event. */
  copies: number;
  seenBy: Set<Origin>;
  skewSeconds: number;
}

export interface TaskRow extends Waiting {
  state: Exclude<TaskState, 'running'>;
  claim: Claim | null;
  crashes: number;
  late: boolean;
  startedAt: number | null;
  notes: Map<string, string>;
}

/** `waiting`: its tasks that have not ended and did not step aside, by cursor. */
export type LaneData = LaneRow & { waiting: TaskRow[] };

export interface HandlerRow {
  id: number;
  name: string;
  loaded: boolean;
  file: string | null;
  /** The last event for which the handler has its tasks, if it missed events. */
  waitsFrom: number | null;
  owed: Set<number>;
}

export type Data = ReturnType<typeof createData>;

export function createData() {
  const state = new Map<StateKey, StateValue>([['born', systemClock.now()]]);
  const counters = new Map<string, number>();
  const cursor = (name: StateKey): Cursor | null => (state.get(name)?.toString() ?? null) as Cursor | null;
  return {
    state,
    counters,
    events: [] as EventRow[],
    tasks: new Map<number, TaskRow>(),
    lanes: new Map<number, LaneData>(),
    handlers: [] as HandlerRow[],
    gaps: [] as Gap[],
    /** By event. `ready`: it turned out not to be history. */
    undecided: new Map<number, { cursor: bigint; ready: boolean }>(),
    types: new Map<string, { deliveredAt: number | null; missed: number; missedSince: number | null }>(),
    cursor,
    count: (counts: Counts): void => {
      for (const [name, by = 0] of Object.entries(counts)) counters.set(name, (counters.get(name) ?? 0) + by);
    },
    birth: (): Birth => ({
      at: Number(state.get('born')),
      reading: (state.get('history_reading') ?? 'none') as Birth['reading'],
      end: cursor('history') ?? cursor('begins_at'),
      older: cursor('older'),
      younger: cursor('younger'),
    }),
  };
}
