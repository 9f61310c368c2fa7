// When the store was created, which decides what events are history; and the events that wait for that decision.
import type { Cursor } from '../../../wire/cursor.ts';
import type { Incoming } from '../../../wire/event.ts';
import { decidedBy, narrow, placeOf, type Birth } from '../../birth.ts';
import type { FanOutPage, StoredEvent } from '../../work.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session } from '../session.ts';

/** The maximum number of rows that one turn deletes, so that no delivery waits long. */
const STEP = 1_000;

export function birthOf(session: Session): Birth {
  return {
    at: Number(session.state('born')),
    reading: (session.state('history_reading') ?? 'none') as Birth['reading'],
    // If REPLAY_FROM is `first-webhook`, replay begins at `begins_at`, and every event above it is new.
    end: session.cursorState('history') ?? session.cursorState('begins_at'),
    older: session.cursorState('older'),
    younger: session.cursorState('younger'),
  };
}

export function createBirthWatch(session: Session) {
  return (events: Incoming[]): void => {
    if (session.state('history_reading') !== 'open') return;
    const birth = birthOf(session);
    const { older, younger } = narrow(birth, events);
    if (older !== birth.older && older !== null) session.setState('older', BigInt(older));
    if (younger !== birth.younger && younger !== null) session.setState('younger', BigInt(younger));
  };
}

/** Call it when a webhook shows that an event of replay or stream happened after the creation of the store. */
export function createHeard(session: Session) {
  const { db } = session;
  const ready = db.prepare(`
    insert into undecided (event, cursor, ready) values (?, ?, 1) on conflict (event) do update set ready = 1`);
  const known = session.value<number, [number]>('select 1 from undecided where event = ?');
  return ({ seq, cursor }: { seq: number; cursor: Cursor }, origin: Incoming['origin']): void => {
    // Without `younger`: this webhook may have set it after `run` planned a turn, and the plan lacks the event's task.
    const birth = { ...birthOf(session), younger: null };
    if (known.get(seq) === undefined) {
      if (placeOf({ origin, cursor, createdAt: null }, birth) === 'new') return;
      session.count({ undecided: 1 });
    }
    ready.run(seq, BigInt(cursor));
  };
}

export function createUndecided(session: Session) {
  const { db } = session;
  const any = session.value('select 1 from undecided limit 1');
  const add = db.prepare('insert into undecided (event, cursor) values (?, ?) on conflict (event) do nothing');
  const remove = db.prepare('delete from undecided where event = ?');
  const isNew = 'u.ready = 1 or u.cursor >= @newFrom';
  const decided = db.prepare<unknown[], StoredEvent>(`
    select ${EVENT_COLUMNS}, ${EVENT_TEXT} from undecided u join events e on e.seq = u.event
    where ${isNew} order by u.cursor limit @limit`);
  const giveUp = db.prepare(`
    delete from undecided where event in (
      select event from undecided u where not (${isNew}) and u.cursor <= @history order by u.cursor limit ${STEP})`);

  const owe = db.prepare(`
    insert into owed (event, handler) select ?, id from handlers where loaded = 0 and waits_from is not null
    on conflict do nothing`);
  const owed = db.prepare<unknown[], StoredEvent>(`
    select ${EVENT_COLUMNS}, ${EVENT_TEXT} from owed o join events e on e.seq = o.event
    where o.handler = ? order by o.event limit ?`);
  const give = db.prepare('delete from owed where event = ? and handler = ?');

  return {
    decided: (birth: Birth, limit: number): StoredEvent[] =>
      any.get() === undefined ? [] : decided.all({ newFrom: decidedBy(birth).newFrom, limit }),
    owed: (handler: number, limit: number): StoredEvent[] => owed.all(handler, limit),
    /** Call it in the transaction that makes the handler's tasks of these events. */
    give(handler: number, events: number[]): void {
      for (const event of events) give.run(event, handler);
    },
    /** Call it in the transaction that makes the tasks of the decided events. */
    fanOut({ undecided = [], decided: ended = [] }: FanOutPage): void {
      let more = 0;
      for (const { event, cursor } of undecided) more += add.run(event, BigInt(cursor)).changes;
      for (const event of ended) {
        more -= remove.run(event).changes;
        owe.run(event);
      }
      session.count({ undecided: more });
    },
    /** Removes undecided events that turned out to be history, so that they wait no longer. */
    giveUp(): void {
      if (any.get() === undefined) return;
      const { newFrom, historyTo: history } = decidedBy(birthOf(session));
      session.count({ undecided: -giveUp.run({ newFrom, history }).changes });
    },
  };
}
