// The status of the kit, from counters and state. No figure is counted row by row.
import { createHandlers } from '../work/handlers.ts';
import { iso } from '../../../base/clock.ts';
import { parseCursor, type Cursor } from '../../../wire/cursor.ts';
import type { ReplayState, StreamState } from '../../keep.ts';
import type { Alarm, ReadStore } from '../../read.ts';
import { isoOf, type Session } from '../session.ts';
import { keptOf } from '../../state.ts';
import { createHealth } from '../state.ts';
import { HANDLERS } from '../work/waiting.ts';
import { selectionOf } from './selection.ts';

/**
 * A process is shown as down after this time without a sign of life. A sign from the future means that the clock was
 * set back.
 */
const BEAT_MS = 5_000;
/** If fewer tasks wait than this, the oldest is found by the index of waiting tasks. */
const FEW = 10_000;
/** Maximum waiting tasks to search for the oldest that does not wait for the watermark. */
const WAITING = 50_000;
/** The id of the oldest waiting task is stored again only if it has grown by this much. */
const FAR = 10_000 * HANDLERS;
const NO_REPLAY: ReplayState = { state: 'off', since: null, lastAt: null, reason: null, progress: null };

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createStatus(session: Session): Pick<ReadStore, 'status' | 'counters'> {
  const { idsOf } = selectionOf(session.dialect);
  const health = createHealth(session);
  const counters = session.statement<{ name: string; value: number }>('select name, value from counters');
  const newest = session.statement<{ seq: number | null; cursor: string | null }>(`
    select (select max(seq) from events) as seq,
      cast((select max(cursor) from events where cursor is not null and conflicting = 0) as text) as cursor`);
  const oldestOf = (which: string) => {
    const waiting = `from ${which} order by id`;
    return {
      any: session.value<number>(`select id ${waiting} limit 1`),
      proved: session.value<number>(`
        select e.received_at from (select * ${waiting} limit ${WAITING}) w join events e on e.seq = w.event
        where w.strict = 0 or w.cursor <= +? order by w.id limit 1`),
    };
  };
  // Both databases read tasks in the order of these ids, and stop at the first that fits.
  const few = `(select id from (${idsOf.ready}) listed where id >= +? order by id limit ${WAITING}) r join tasks using (id)`;
  const oldest = {
    few: oldestOf(`${few} where rerun = 0`),
    many: oldestOf(`tasks where id >= +? and state = 'ready' and rerun = 0`),
  };
  const registry = createHandlers(session);
  const gaps = session.value<number>('select count(*) from gaps where closed_at is null');
  const alarms = session.statement<{ name: string; since: number; detail: string }>(
    'select name, since, detail from alarms where cleared = 0 order by since',
  );
  const processes = session.statement<{ role: string; beat_at: number }>('select role, beat_at from processes');

  const counterMap = async (): Promise<Record<string, number>> =>
    Object.fromEntries((await counters.all()).map(({ name, value }) => [name, value]));

  /** When the event of the oldest waiting task was received. Tasks before the stored id have ended. */
  async function oldestReady(ready: number): Promise<number | null> {
    const from = Number(await session.state('oldest'));
    const { any, proved } = ready < FEW ? oldest.few : oldest.many;
    const found = await any.get(from);
    if (found === undefined) return null;
    if (found > from + FAR) await remember(from, found);
    // Tasks that wait for the watermark count as held.
    return (await proved.get(found, BigInt((await session.cursorState('watermark')) ?? -1))) ?? null;
  }

  async function remember(before: number, id: number): Promise<void> {
    try {
      await session.write(async () => {
        // A retry may have moved the oldest task back meanwhile.
        if (Number(await session.state('oldest')) === before) await session.setState('oldest', id);
      }, 'work');
    } catch {
      // The store is locked now; the next look searches a little further.
    }
  }

  return {
    async status(now) {
      const n = await counterMap();
      const at = (name: string): number => n[name] ?? 0;
      const { seq, cursor } = (await newest.get()) ?? { seq: null, cursor: null };
      const ready = at('tasks.ready');
      const held = Math.min(ready, Number(await session.state('held')));
      const waiting = ready > held ? await oldestReady(ready) : null;
      const up = new Set(
        (await processes.all()).flatMap(({ role, beat_at }) => (Math.abs(now - beat_at) < BEAT_MS ? [role] : [])),
      );
      const isUp = (role: string): 'up' | 'down' => (up.has(role) ? 'up' : 'down');
      const replay = keptOf('replay', await session.state('replay')) ?? NO_REPLAY;
      const { failureRun, failures, signers } = await health();
      const { lastGoodAt, at: _, ...bad } = failures;
      const watermark = await session.cursorState('watermark');
      return {
        events: at('events'),
        unassigned: Math.max(0, (seq ?? 0) - Number(await session.state('fanned_out'))),
        undecided: at('undecided'),
        duplicates: at('duplicates'),
        quarantined: at('quarantined'),
        conflicts: at('conflicts'),
        tasks: {
          held,
          ready: ready - held,
          running: at('tasks.running'),
          done: at('tasks.done'),
          skipped: at('tasks.skipped'),
          dead: at('tasks.dead'),
        },
        oldestReadySeconds: waiting === null ? null : Math.max(0, Math.round((now - waiting) / 1000)),
        watermark,
        floor: ((await session.floor(watermark))?.toString() ?? null) as Cursor | null,
        newestCursor: cursor === null ? null : (parseCursor(cursor) ?? null),
        reconcile: { ...replay, recovered: at('recovered') },
        stream: JSON.parse(
          String((await session.state('stream')) ?? '{"state":"off","since":null,"reason":null}'),
        ) as StreamState,
        gaps: (await gaps.get()) ?? 0,
        failureRun,
        failures: bad,
        lastDeliveryAt: lastGoodAt,
        secrets: signers
          .flatMap(({ number, hits, lastAt, mayGo }) =>
            number === null ? [] : [{ number, hits, lastAt: iso(lastAt), mayGo }],
          )
          .toSorted((a, b) => a.number - b.number),
        alarms: (await alarms.all()).map(({ name, since, detail }): Alarm => ({ name, since: isoOf(since), detail })),
        processes: { receive: isUp('receive'), run: isUp('run'), keep: isUp('keep') },
        instances: [],
        waiting: (await registry.waiting()).flatMap(({ name: handler, since }) =>
          since === null ? [] : [{ handler, since: isoOf(since) }],
        ),
        moving: keptOf('moving', await session.state('moving')),
        paused: Object.keys(keptOf('paused', await session.state('paused'))),
      };
    },
    counters: counterMap,
  };
}
