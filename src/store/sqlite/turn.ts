// A turn of `run`: one transaction that settles, fans out and claims. It works on what `look` has read before.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { COUNT, Counts } from '../counts.ts';
import { dueAt } from '../lanes.ts';
import { EVENT, PAGE, pageOf, toEvent, type EventRow } from '../rows.ts';
import { StoreError } from '../store.ts';
import type { Look, StoredEvent, Turn, TurnResult, WorkStore } from '../work.ts';
import { createClaiming } from './claim.ts';
import type { Db } from './database.ts';
import { createLanes, createTasks } from './lanes.ts';
import { createSettle } from './settle.ts';
import { createState } from './state.ts';

const statements = (db: Db) => ({
  stands: db.value<number>('select 1 from boots where id = ?'),
  count: db.sql(COUNT),
  newest: db.value<number>('select coalesce(max(seq), 0) from events'),
  page: db.sql<EventRow>(`select ${EVENT} from events e where seq > ? order by seq limit ${PAGE}`),
  event: db.sql<EventRow>(`select ${EVENT} from events e where seq = ?`),
});

export function createTurns(db: Db, clock: Clock): Pick<WorkStore, 'look' | 'turn' | 'events'> {
  const sql = statements(db);
  const state = createState(db);
  const lanes = createLanes(db, state);
  const [settle, tasks] = [createSettle(db, lanes), createTasks(db, lanes)];
  const { loaded, ...claiming } = createClaiming(db, tasks);

  function pageAfter(position: number, newest: number): { events: StoredEvent[]; upTo: number } {
    const { events, isWhole } = pageOf(sql.page.iterate(position), PAGE);
    return { events, upTo: isWhole ? newest : (events.at(-1)?.seq ?? newest) };
  }

  function fanOut(turn: Turn, counts: Counts): void {
    const touched = new Set<number>();
    for (const { handler, from, upTo, tasks: list } of turn.fanOut) {
      const room = turn.rooms.find((one) => one.handler === handler);
      if (room && tasks.move(handler, from, upTo))
        for (const task of list) tasks.add(task, dueAt(task, room), counts, touched);
    }
    for (const lane of touched) lanes.touch(lane);
  }

  return {
    look: (wanted) =>
      db.read((): Look => {
        const newest = sql.newest.get() ?? 0;
        const handlers = loaded();
        const mine = handlers.filter(({ id, position }) => wanted.includes(id) && position < newest);
        const behind = new Set(mine.map(({ position }) => position));
        const pages = new Map([...behind].map((position) => [position, pageAfter(position, newest)]));
        return { watermark: state.get('watermark') as Cursor | null, newest, handlers, pages };
      }),
    events: (seqs) => db.query(() => seqs.flatMap((seq) => sql.event.all(seq).map(toEvent))),
    turn: (turn) =>
      db.write(
        (): TurnResult => {
          const now = clock.now();
          if (sql.stands.get(turn.boot) === undefined) throw new StoreError('orphan', 'another run has taken over');
          const counts = new Counts();
          const fenced = settle(turn.ended, now, counts);
          fanOut(turn, counts);
          const result = turn.suspects ? claiming.suspect(turn, now) : claiming.live(turn, now);
          for (const changes of counts.list()) sql.count.run(changes);
          const all = turn.rooms.map(({ handler }) => handler);
          const suspects = claiming.suspects(all, now);
          return { ...result, suspects, fenced, erased: Number(state.get('erased')) };
        },
        { synced: false },
      ),
  };
}
