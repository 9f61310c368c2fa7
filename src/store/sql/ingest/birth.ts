// When the store was created, which decides what events are history; and the events that wait for that decision.
import type { Cursor } from '../../../wire/cursor.ts';
import type { Incoming } from '../../../wire/event.ts';
import { decidedBy, narrow, placeOf, type Birth } from '../../birth.ts';
import type { FanOutPage, StoredEvent } from '../../work.ts';
import { EVENT_COLUMNS, toStored, type EventRow, type Session, type Statement } from '../session.ts';

/** The maximum number of rows that one turn deletes, so that no delivery waits long. */
const STEP = 1_000;

interface StateRow {
  name: string;
  value: string | null;
}

/** One statement, because it is read at each turn. */
const statements = new WeakMap<Session, Statement<StateRow>>();

export async function birthOf(session: Session): Promise<Birth> {
  const statement =
    statements.get(session) ??
    session.statement<StateRow>(`
      select name, cast(value as text) as value from state
      where name in ('born', 'history_reading', 'history', 'begins_at', 'older', 'younger')`);
  statements.set(session, statement);
  const states = new Map((await statement.all()).map(({ name, value }) => [name, value]));
  const cursor = (name: string): Cursor | null => (states.get(name) ?? null) as Cursor | null;
  return {
    at: Number(states.get('born') ?? 0),
    reading: (states.get('history_reading') ?? 'none') as Birth['reading'],
    // If REPLAY_FROM is `first-webhook`, replay begins at `begins_at`, and every event above it is new.
    end: cursor('history') ?? cursor('begins_at'),
    older: cursor('older'),
    younger: cursor('younger'),
  };
}

export function createBirthWatch(session: Session) {
  return async (events: Incoming[]): Promise<void> => {
    const birth = await birthOf(session);
    const { older, younger } = narrow(birth, events);
    if (older !== birth.older && older !== null) await session.setState('older', BigInt(older));
    if (younger !== birth.younger && younger !== null) await session.setState('younger', BigInt(younger));
  };
}

/** An event of replay or stream that a webhook brings too. */
interface Witnessed {
  seq: number;
  cursor: Cursor;
  origin: Incoming['origin'];
  /** When it happened, as the webhook says. */
  happened: number;
}

/** Call it when webhooks bring events of replay or stream: those that happened after the store was created are new. */
export function createHeard(session: Session) {
  const columns = { event: 'bigint', cursor: 'bigint', ready: 'bigint' } as const;
  const conflict = 'on conflict (event) do update set ready = 1';
  const makeReady = session.insertAll({ into: 'undecided', columns, conflict });
  const waiting = session.value<number>(
    `select event from undecided where event ${session.dialect.oneOf('?', 'bigint')}`,
  );
  return async (events: Witnessed[]): Promise<void> => {
    if (events.length === 0) return;
    // Without `younger`: this webhook may have set it after `run` planned a turn, and the plan lacks the event's task.
    const birth = { ...(await birthOf(session)), younger: null };
    const known = new Set(await waiting.all(events.map(({ seq }) => seq)));
    const ready = events.filter(
      ({ seq, cursor, origin, happened }) =>
        happened >= birth.at && (known.has(seq) || placeOf({ origin, cursor, createdAt: null }, birth) !== 'new'),
    );
    await session.count({ undecided: ready.filter(({ seq }) => !known.has(seq)).length });
    await makeReady(ready.map(({ seq, cursor }) => [seq, BigInt(cursor), 1]));
  };
}

export function createUndecided(session: Session) {
  const { statement, dialect } = session;
  const listed = dialect.oneOf('@events', 'bigint');
  const EVENT = `${EVENT_COLUMNS}, ${dialect.eventText}`;
  const any = session.value('select 1 from undecided limit 1');
  const add = session.insertAll({
    into: 'undecided',
    columns: { event: 'bigint', cursor: 'bigint' },
    conflict: 'on conflict (event) do nothing',
  });
  const remove = statement(`delete from undecided where event ${listed}`);
  const isNew = 'u.ready = 1 or u.cursor >= @newFrom';
  const decided = statement<EventRow>(`
    select ${EVENT} from undecided u join events e on e.seq = u.event
    where ${isNew} order by u.cursor, u.event limit @limit`);
  const giveUp = statement(`
    delete from undecided where event in (
      select event from undecided u where not (${isNew}) and u.cursor <= @history order by u.cursor, u.event limit ${STEP})`);

  const owe = statement(`
    insert into owed (event, handler)
      select value, id from ${dialect.listOf('@events')} cross join handlers where loaded = 0 and waits_from is not null
    on conflict do nothing`);
  const owed = statement<EventRow>(`
    select ${EVENT} from owed o join events e on e.seq = o.event
    where o.handler = ? order by o.event limit ?`);
  const give = statement(`delete from owed where handler = @handler and event ${listed}`);

  return {
    decided: async (birth: Birth, limit: number): Promise<StoredEvent[]> =>
      (await any.get()) === undefined
        ? []
        : (await decided.all({ newFrom: decidedBy(birth).newFrom, limit })).map(toStored),
    owed: async (handler: number, limit: number): Promise<StoredEvent[]> =>
      (await owed.all(handler, limit)).map(toStored),
    /** Call it in the transaction that makes the handler's tasks of these events. */
    async give(handler: number, events: number[]): Promise<void> {
      if (events.length > 0) await give.run({ handler, events });
    },
    /** Call it in the transaction that makes the tasks of the decided events. */
    async fanOut({ undecided = [], decided: events = [] }: FanOutPage): Promise<void> {
      let more = 0;
      if (undecided.length > 0) more += await add(undecided.map(({ event, cursor }) => [event, BigInt(cursor)]));
      if (events.length > 0) {
        more -= await remove.run({ events });
        await owe.run({ events });
      }
      await session.count({ undecided: more });
    },
    /** Removes undecided events that turned out to be history, so that they wait no longer. */
    async giveUp(): Promise<void> {
      if ((await any.get()) === undefined) return;
      const { newFrom, historyTo: history } = decidedBy(await birthOf(session));
      await session.count({ undecided: -(await giveUp.run({ newFrom, history })) });
    },
  };
}
