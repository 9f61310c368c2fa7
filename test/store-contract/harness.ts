// Helpers for all parts of the suite: events, settlements, and a desk, which runs turns on the store as `run` does.
import type { KeepStore } from '../../src/store/keep.ts';
import type { ProcessStore } from '../../src/store/processes.ts';
import type { ReadStore, ShownEvent, ShownTask, TaskFilter } from '../../src/store/read.ts';
import type { ReplayStore } from '../../src/store/replay.ts';
import type { StateStore } from '../../src/store/state.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim, NewTask, Settlement, StoredEvent, SqlRow, Turn, TurnResult } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import type { Incoming, Reading } from '../../src/wire/event.ts';

export const T0 = Date.UTC(2026, 0, 1);
export const ROOM = 1_000;

/** The part of a store that works: whatever accepts, orders and runs, and what tests read of it. */
export interface WorkingStore extends Pick<Store, 'ingest' | 'work' | 'close'> {
  state: Pick<StateStore, 'get' | 'note'>;
  processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'>;
  replay: Pick<ReplayStore, 'newestCursor'>;
  keep: Pick<KeepStore, 'newestEvent'>;
  read: Pick<ReadStore, 'counters' | 'gaps'> & {
    event(name: string, now: number): Promise<{ event: KnownEvent } | undefined>;
    tasks(
      filter: Pick<TaskFilter, 'state' | 'before' | 'limit'>,
      now: number,
    ): Promise<{ tasks: KnownTask[]; next: number | null }>;
  };
}

type KnownEvent = Pick<ShownEvent, 'key' | 'id' | 'origin' | 'sessionId' | 'createdAt' | 'copies'>;
type KnownTask = Pick<ShownTask, 'id' | 'key' | 'lane' | 'state' | 'attempts' | 'late' | 'error'>;

/** Store and desk are new for each test, so each part reads them in its `beforeEach`. */
export interface Suite<Kind extends WorkingStore = WorkingStore> {
  readonly store: Kind;
  readonly desk: Desk;
  /** Opens the same store once more, as another process would. */
  another: () => Kind;
}

/** Stands for the process `run`: runs turns on the store. Its clock stands still. Each session is a lane. */
export interface Desk<Kind extends WorkingStore = WorkingStore> {
  store: Kind;
  handler: number;
  now: number;
  boot: number;
  accept(lane: string | null, cursors: (number | string | null)[]): Promise<void>;
  fanOut(releaseAt?: number): Promise<void>;
  arrive(lane: string | null, cursors: (number | string | null)[], releaseAt?: number): Promise<void>;
  turn(turn: Partial<Turn>): Promise<TurnResult>;
  claim(room?: number): Promise<Claim[]>;
  settle(settle: Settlement[]): Promise<TurnResult>;
  /** Claims and completes tasks until none is due. Returns the cursors of each turn. */
  workOff(): Promise<string[][]>;
}

let withoutCursor = 0;

export async function createDesk<Kind extends WorkingStore>(store: Kind): Promise<Desk<Kind>> {
  const handler = (await store.work.register(['first'])).get('first') ?? 0;
  const desk: Desk<Kind> = {
    store,
    handler,
    now: T0,
    boot: 1,
    async accept(lane, cursors) {
      const readings = cursors.map((cursor) => event(cursor === null ? null : String(cursor), lane));
      await store.ingest.accept({ readings, now: desk.now });
    },
    async fanOut(releaseAt = desk.now) {
      const { from, events } = await store.work.pending(10_000);
      const upTo = events.at(-1)?.seq ?? from;
      await desk.turn({ fanOut: { from, upTo, tasks: tasksOf(events, handler, releaseAt) } });
    },
    async arrive(lane, cursors, releaseAt = desk.now) {
      await desk.accept(lane, cursors);
      await desk.fanOut(releaseAt);
    },
    turn: (turn) =>
      store.work.turn({
        now: desk.now,
        boot: desk.boot,
        settle: [],
        fanOut: null,
        room: 0,
        handlers: [handler],
        ...turn,
      }),
    claim: async (room = ROOM) => (await desk.turn({ room })).claims,
    settle: (settle) => desk.turn({ settle }),
    async workOff() {
      const turns: string[][] = [];
      for (let settle: Settlement[] = []; ;) {
        const { claims } = await desk.turn({ settle, room: ROOM });
        if (claims.length === 0) return turns;
        turns.push(claims.map(cursorOf).toSorted((a, b) => Number(a) - Number(b)));
        settle = claims.map(done);
      }
    },
  };
  return desk;
}

export function tasksOf(events: StoredEvent[], handler: number, releaseAt: number): NewTask[] {
  return events.map(({ seq, sessionId, cursor }) => ({ event: seq, handler, lane: sessionId, cursor, releaseAt }));
}

export function incoming(cursor: string | null, sessionId: string | null = 'a'): Incoming {
  const id = cursor === null ? `id-none-${++withoutCursor}` : `id-${cursor}`;
  const body = Buffer.from(JSON.stringify({ id, type: 'Thing', cursor, data: { Thing: { cursor } } }));
  return {
    origin: 'webhook',
    id,
    cursor: cursor as Cursor | null,
    type: 'Thing',
    sessionId,
    createdAt: null,
    body,
    flags: [],
  };
}

export function event(cursor: string | null, sessionId: string | null = 'a'): Reading {
  return { event: incoming(cursor, sessionId) };
}

export function unreadable(text: string): Reading {
  return { unreadable: { origin: 'webhook', cursor: null, body: Buffer.from(text), reason: 'not JSON' } };
}

export function done(claim: Claim | undefined): Settlement {
  return { claim: present(claim), state: 'done', error: null };
}

export function ended(claim: Claim, state: 'done' | 'skipped' | 'dead'): Settlement {
  return { claim, state, error: state === 'done' ? null : 'because' };
}

export function failed(claim: Claim | undefined, { dueAt, holdMs }: { dueAt: number; holdMs: number }): Settlement {
  return { claim: present(claim), state: 'ready', error: 'Error: no', dueAt, holdMs };
}

export function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('expected a claim');
  return value;
}

export function cursorOf(claim: Claim): string {
  return String(claim.event.cursor);
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** The rows of a handler's own table. */
export function rowsOf(store: WorkingStore, table: string): Promise<SqlRow[]> {
  return store.work.read(`select * from ${table}`, []);
}

/** The counters that count rows, and those of arrivals. */
export async function sums(store: WorkingStore) {
  const counters = await store.read.counters();
  const of = (name: string): number => counters[name] ?? 0;
  return {
    events: of('events'),
    quarantined: of('quarantined'),
    duplicates: of('duplicates'),
    conflicts: of('conflicts'),
    tasks: {
      ready: of('tasks.ready'),
      running: of('tasks.running'),
      done: of('tasks.done'),
      skipped: of('tasks.skipped'),
      dead: of('tasks.dead'),
    },
    waiting: Object.entries(counters).reduce((sum, [name, n]) => sum + (name.startsWith('waiting.') ? n : 0), 0),
  };
}

export async function laneOf(store: WorkingStore, key: string): Promise<string | null | undefined> {
  const { tasks } = await store.read.tasks({ limit: 1_000 }, T0);
  return tasks.find((task) => task.key === key)?.lane;
}
