// Handlers as people see them: their figures from counters, and what one of them is busy with.
import { patternOf } from '../../error-pattern.ts';
import type { HandlerDetail, Pause, ReadStore, WaitingLane } from '../../read.ts';
import { keptOf } from '../../state.ts';
import { EVENT_KEY, isoOf, type Session } from '../session.ts';
import { HANDLERS } from '../work/waiting.ts';
import { selectionOf, STRETCH } from './selection.ts';

const SLOWEST = 10;
/** The newest events whose tasks are searched for the slowest. */
const NEWEST = 2_000;
const LANES = 10;
/** The newest events whose types and sessions are offered, and how many sessions. */
const RECENT = 1_000;
const SESSIONS = 50;

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createHandlerReads(
  session: Session,
  waitingLanes: ReadStore['waitingLanes'],
): Pick<ReadStore, 'handlers' | 'handler' | 'offers' | 'extent'> {
  const { STATE } = selectionOf(session.dialect);
  type Row = { name: string; loaded: number; waiting: number; dead: number; oldest: number | null };
  const all = session.statement<Row>(`
    select h.name, h.loaded,
      coalesce((select value from counters where name = 'waiting.' || h.name), 0) as waiting,
      cast(coalesce((select sum(dead) from dead_groups where handler = h.id), 0) as bigint) as dead,
      (select received_at from events where seq = (
        select event from tasks where handler = h.id and state = 'ready' order by id limit 1)) as oldest
    from handlers h order by h.name`);
  const failing = session.statement<{ key: string; error: string }>(`
    select ${EVENT_KEY}, t.error from (
      select id from tasks where handler = ? and state = 'ready' order by id limit ${STRETCH}) oldest
      join tasks t on t.id = oldest.id join events e on e.seq = t.event
    where t.error is not null order by t.id desc limit 1000`);
  const idOf = session.value<number>('select id from handlers where name = ?');
  const slowest = session.statement<{ key: string; state: 'done' | 'dead'; took: number; at: number }>(`
    select ${EVENT_KEY}, ${STATE} as state, t.changed_at - t.started_at as took, t.changed_at as at
    from tasks t join events e on e.seq = t.event
    where t.id >= ((select coalesce(max(seq), 0) from events) - ${NEWEST - 1}) * ${HANDLERS} and t.handler = @handler
      and t.state in ('done', 'dead') and t.attempts > 0
    order by took desc, t.id limit ${SLOWEST}`);
  const recent = session.statement<{ type: string; session: string | null }>(
    `select type, session_id as session from events where seq > (select max(seq) from events) - ${RECENT} order by seq desc`,
  );
  const earliest = session.value<number>('select received_at from events where seq = (select min(seq) from events)');
  const types = session.value<string>('select type from types order by type');
  const names = session.value<string>('select name from handlers order by name');

  async function failuresOf(handler: number): Promise<HandlerDetail['failing']> {
    const groups = Map.groupBy(await failing.all(handler), ({ error }) => patternOf(error));
    const list = [...groups].map(([pattern, [first, ...rest]]) => {
      return { pattern, tasks: 1 + rest.length, key: first?.key ?? '', error: first?.error ?? '' };
    });
    return list.toSorted((a, b) => b.tasks - a.tasks);
  }

  return {
    async handlers(now) {
      const paused = keptOf('paused', await session.state('paused'));
      return (await all.all()).map(({ name, loaded, waiting, dead, oldest }) => {
        const oldestSeconds = oldest === null ? null : Math.max(0, Math.round((now - oldest) / 1_000));
        return { name, loaded: loaded === 1, paused: pauseOf(paused, name), waiting, oldestSeconds, dead };
      });
    },
    async handler(name) {
      const id = await idOf.get(name);
      if (id === undefined) return undefined;
      const lanes: WaitingLane[] = await waitingLanes(LANES, name);
      const slow = (await slowest.all({ handler: id })).map(({ took, at, ...task }) => {
        return { ...task, tookMs: Math.max(0, took), at: isoOf(at) };
      });
      return { failing: await failuresOf(id), slowest: slow, lanes };
    },
    async extent() {
      const receipts = keptOf('receipts', await session.state('receipts'));
      return { oldestAt: (await earliest.get()) ?? null, prunedAt: receipts?.at ?? null };
    },
    async offers() {
      const rows = await recent.all();
      const sessions = new Set(rows.flatMap((row) => row.session ?? []));
      return {
        types: [...new Set([...(await types.all()), ...rows.map(({ type }) => type)])].toSorted(),
        sessions: [...sessions].slice(0, SESSIONS),
        handlers: await names.all(),
      };
    },
  };
}

function pauseOf(paused: Record<string, { at: number; reason: string | null }>, name: string): Pause | null {
  const of = (key: string) => (Object.hasOwn(paused, key) ? paused[key] : undefined);
  const all = of('*');
  const pause = all ?? of(name);
  return pause ? { since: isoOf(pause.at), reason: pause.reason, all: all !== undefined } : null;
}
