// Events as people see them: pages by keyset, and one event with everything that is known of it.
import { parseCursor } from '../../../wire/cursor.ts';
import type { Origin } from '../../../wire/event.ts';
import {
  CONFLICTS,
  type ListedEvent,
  type ReadStore,
  type ShownAttempt,
  type ShownConflict,
  type ShownEvent,
} from '../../read.ts';
import type { TaskState } from '../../work.ts';
import { createByTime } from './by-time.ts';
import { EVENT_COLUMNS, isoOf, type Session } from '../session.ts';
import { HANDLERS, idsOfEvent } from '../work/waiting.ts';
import { inState, selectionOf, STRETCH } from './selection.ts';
import { taskOf, toTask, type TaskRow } from './tasks.ts';

/** Maximum bodies that one page searches. */
const SEARCHED = 5_000;
/** A page of a list looks at LOOK events at a time, and stops after LOOK_MS. On a cold disk it looks at few. */
const LOOK = 250;
const LOOK_MS = 15;

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createEvents(session: Session): Pick<ReadStore, 'events' | 'event' | 'contradictions' | 'body'> {
  const { dialect } = session;
  const { IN_STATE, STATE, HELD } = selectionOf(dialect);
  const receipt = createByTime(session);
  const tasksOf = idsOfEvent('cast(@seq as bigint)');
  const shown = `select ${EVENT_COLUMNS}, e.copies, e.flags, length(e.body) as bytes from events e`;
  const eventList = session.statement<ShownEvent>(`
    ${shown} where e.seq < @before and e.seq > @from and (cast(@type as text) is null or e.type = @type)
      and (cast(@contradicted as bigint) is null or exists (select 1 from conflicts c where c.seq = e.seq))
      and (cast(@unseen as bigint) is null or e.origin = 'webhook' and not exists (
        select 1 from seen_by_origin s where s.event = e.seq and s.origin in ('replay', 'stream')))
      and (cast(@session as text) is null or e.session_id = @session)
      and (cast(@origin as text) is null or e.origin = @origin)
      and (cast(@state as text) is null and cast(@handler as text) is null or exists (
        select 1 from tasks t
        where t.id ${idsOfEvent('e.seq')} and (cast(@state as text) is null or ${IN_STATE})
          and (cast(@handler as text) is null or t.handler = (select id from handlers where name = @handler))))
      and (cast(@q as text) is null or ${dialect.contains('e.body', '@compact')} or ${dialect.contains('e.body', '@spaced')})
    order by e.seq desc limit @limit`);
  const named = session.statement<ShownEvent>(`
    ${shown} join (
      select 1 as n, seq from events where cursor = @cursor and cursor is not null and conflicting = 0
      union all select 2, seq from events where id = @id and seq in (${dialect.eventsWithId('@id')})
      union all select 3, seq from aliases where name in ('c:' || cast(@cursor as bigint), 'i:' || @id)
    ) found on found.seq = e.seq order by e.conflicting, found.n limit 1`);
  // The digest of a purged body stays.
  const erased = session.value<number>('select 1 from events where seq = ? and body is null and digest is null');
  const body = session.value<Uint8Array | null>('select body from events where seq = ?');
  const aliases = session.value<string>('select name from aliases where seq = ? order by name');
  const sightings = session.statement<{ origin: Origin; at: number }>(
    'select origin, seen_at as at from seen_by_origin where event = ? order by seen_at, origin',
  );
  const deliveries = session.statement<{ at: number; secret: number | null; skewSeconds: number | null }>(`
    select 0 as n, received_at as at, secret, skew_s as "skewSeconds" from events where seq = @seq and origin = 'webhook'
    union all select n, received_at, secret, skew_s from redeliveries where event = @seq order by n`);
  const attempts = session.statement<Omit<ShownAttempt, 'startedAt' | 'endedAt'> & { from: number; to: number }>(`
    select task, attempt, started_at as "from", ended_at as "to", state, error from attempts
    where task ${tasksOf} order by started_at, attempt`);
  const conflicts = session.statement<Omit<ShownConflict, 'at'> & { at: number }>(`
    select received_at as at, origin, event_id as id, cast(cursor as text) as cursor, reason from conflicts
    where seq = ? order by received_at, conflicts.id limit ${CONFLICTS}`);
  const lastContradicted = session.value<number | null>('select max(seq) from conflicts where seq < ?');
  const contradictions = session.statement<{ at: number; body: Uint8Array }>(
    `select received_at as at, body from conflicts where seq = ? order by received_at, id limit ${CONFLICTS}`,
  );
  // Equal ids, unlike ranges of ids, let PostgreSQL find the tasks by their index.
  const outcomes = session.statement<{ event: number; handler: string; state: TaskState; held: 0 | 1 }>(`
    select t.event, h.name as handler, ${STATE} as state, ${HELD} as held
    from events e cross join handlers h join tasks t on t.id = e.seq * ${HANDLERS} + h.id
    where e.seq ${dialect.oneOf('@events', 'bigint')} order by t.id`);
  const ofEvent = session.statement<TaskRow>(`${taskOf(dialect)} where t.id ${tasksOf} order by t.id`);

  async function listed(events: ShownEvent[], now: number): Promise<ListedEvent[]> {
    if (events.length === 0) return [];
    const tasks = await outcomes.all({ events: events.map(({ seq }) => seq), now });
    const of = Map.groupBy(tasks, ({ event }) => event);
    return events.map((event) => {
      const its = (of.get(event.seq) ?? []).map(({ handler, state, held }) => {
        return { handler, state: held ? ('held' as const) : state };
      });
      return { ...event, outcomes: its };
    });
  }

  return {
    async events(
      { type, session: sessionId, state, contradicted, unseen, origin, handler, since, until, q, before, limit },
      now,
    ) {
      const row = q === undefined || before !== undefined ? undefined : await named.get(nameOf(q));
      if (row) return { events: await listed([row], now), next: null };
      const last = await (until === undefined ? receipt.newest() : receipt.lastBefore(until));
      const upper = Math.min(before ?? Infinity, last + 1);
      // Begins at the newest contradicted event, which may be far from the newest event.
      const top = contradicted ? ((await lastContradicted.get(upper)) ?? 0) + 1 : upper;
      const floor = since === undefined ? 0 : await receipt.lastBefore(since);
      const from = Math.max(floor, top - 1 - (q === undefined ? STRETCH : SEARCHED));
      const given = {
        type: type ?? null,
        session: sessionId ?? null,
        origin: origin ?? null,
        handler: handler ?? null,
        contradicted: contradicted ? 1 : null,
        unseen: unseen ? 1 : null,
        q: q ?? null,
      };
      const match = { ...inState(state), ...given, ...messageId(q), now };
      const begun = performance.now();
      const events: ShownEvent[] = [];
      for (let at = top; ;) {
        const down = Math.max(from, at - 1 - LOOK);
        const found = await eventList.all({ ...match, before: at, from: down, limit: limit - events.length });
        events.push(...found);
        if (events.length === limit) return { events: await listed(events, now), next: events.at(-1)?.seq ?? null };
        at = down + 1;
        if (down <= floor) return { events: await listed(events, now), next: null };
        if (down <= from || performance.now() - begun > LOOK_MS) return { events: await listed(events, now), next: at };
      }
    },
    async event(name, now) {
      const row = await named.get(nameOf(name));
      if (!row) return undefined;
      return {
        event: row,
        erased: (await erased.get(row.seq)) === 1,
        sightings: (await sightings.all(row.seq)).map(({ origin, at }) => ({ origin, at: isoOf(at) })),
        deliveries: (await deliveries.all({ seq: row.seq })).map(({ at, secret, skewSeconds }) => {
          return { at: isoOf(at), secret, skewSeconds };
        }),
        aliases: await aliases.all(row.seq),
        conflicts: (await conflicts.all(row.seq)).map((one) => ({ ...one, at: isoOf(one.at) })),
        tasks: (await ofEvent.all({ seq: row.seq, now })).map(toTask),
        attempts: (await attempts.all({ seq: row.seq })).map(({ from, to, ...attempt }) => {
          return { ...attempt, startedAt: isoOf(from), endedAt: isoOf(to) };
        }),
      };
    },
    async contradictions(name) {
      const rows = await contradictions.all((await named.get(nameOf(name)))?.seq ?? null);
      return rows.map(({ at, body: bytes }) => ({ at: isoOf(at), body: bytes }));
    },
    body: async (name) => (await body.get((await named.get(nameOf(name)))?.seq ?? null)) ?? null,
  };
}

/** The names that people use for an event: its key (`c:…`, `i:…`), its cursor or its id. */
function nameOf(text: string): { cursor: bigint | null; id: string | null } {
  const cursor = parseCursor(text.startsWith('c:') ? text.slice(2) : text);
  const id = text.startsWith('i:') ? text.slice(2) : text.startsWith('c:') ? null : text;
  return { cursor: cursor === undefined ? null : BigInt(cursor), id };
}

/** The two usual ways to write a `message_id` in JSON: without a space after the colon, and with one. */
function messageId(q: string | undefined): { compact: Uint8Array | null; spaced: Uint8Array | null } {
  if (q === undefined) return { compact: null, spaced: null };
  const [compact, spaced] = ['', ' '].map((space) => Buffer.from(`"message_id":${space}${JSON.stringify(q)}`));
  return { compact: compact ?? null, spaced: spaced ?? null };
}
