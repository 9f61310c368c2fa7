// The work and process roles in memory: events become tasks, which are claimed and settled.
import { decidedBy } from '../../../store/birth.ts';
import { gapId } from '../../../store/gap-event.ts';
import { iso } from '../../../base/clock.ts';
import { mayBeBroken, withoutMissed } from '../../../store/missed.ts';
import { afterCrash, type GivenBack, type ProcessStore } from '../../../store/processes.ts';
import { countsOf, endOf } from '../../../store/settlement.ts';
import {
  NOTES,
  type Claim,
  type NewTask,
  type Settlement,
  type Turn,
  type TurnResult,
  type WorkStore,
} from '../../../store/work.ts';
import type { Data, HandlerRow, TaskRow } from './data.ts';
import type { createLanes } from './lanes.ts';
import type { createTables } from './tables.ts';

type Lanes = ReturnType<typeof createLanes>;

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createWork(data: Data, lanes: Lanes, tables: ReturnType<typeof createTables>) {
  const { tasks, events, handlers, state, undecided, count } = data;
  const byId = (id: number): HandlerRow => handlers[id - 1] ?? refuse(`handler ${id} is unknown`);
  const fannedOut = (): number => Number(state.get('fanned_out') ?? 0);

  function holds({ task, attempt, boot }: Claim): TaskRow | undefined {
    const row = tasks.get(task);
    return row?.claim?.attempt === attempt && row.claim.boot === boot ? row : undefined;
  }

  /** False: the claim no longer holds. */
  function settle(settlement: Settlement, now: number): boolean {
    const { claim, error, spent = true } = settlement;
    const row = holds(claim);
    if (!row) return false;
    const attempts = spent ? claim.attempt : claim.attempt - 1;
    Object.assign(row, { claim: null, error, attempts, isolated: false, startedAt: claim.startedAt });
    if (settlement.state === 'ready') {
      const { dueAt, holdMs, deferredMs = 0 } = settlement;
      const holdUntil = row.holdUntil ?? (holdMs === null ? null : now + holdMs);
      Object.assign(row, { dueAt, holdUntil, deferred: row.deferred + deferredMs });
    } else {
      Object.assign(row, { state: settlement.state, late: claim.late });
      lanes.leave(row);
      lanes.finish(row);
      const gap = data.gaps.find(({ id }) => settlement.state === 'done' && gapId(id) === claim.event.id);
      if (gap) Object.assign(gap, { closedAt: iso(now), closedBy: byId(claim.handler).name });
    }
    if (claim.lane !== null) lanes.core.ended(claim.lane, endOf(settlement), claim.alone, now);
    count(countsOf([settlement], (id) => byId(id).name));
    return true;
  }

  function make(given: NewTask, now: number): void {
    const { event, handler, lane, releaseAt, strict = false, rerun = 0 } = given;
    const id = event * 4_096 + handler;
    if (tasks.has(id)) return;
    const cursor = given.cursor === null ? null : BigInt(given.cursor);
    const inLane = lane !== null && cursor !== null;
    const none = { holdUntil: null, isolated: false, error: null, claim: null, startedAt: null, lane: null };
    const zero = { attempts: 0, deferred: 0, crashes: 0, late: false, alone: true, notes: new Map<string, string>() };
    const due = { releaseAt, dueAt: inLane ? now : releaseAt };
    const row: TaskRow = { id, event, handler, cursor, strict, rerun, state: 'ready', ...due, ...none, ...zero };
    tasks.set(id, row);
    if (inLane) lanes.enter(row, given, lane);
    count({ 'tasks.ready': 1 });
  }

  /** Returns the last event for which the handler has its tasks; null: it has caught up. */
  function makeMissed({ missed, fanOut, now }: Turn, moved: boolean): number | null {
    if (!missed) return null;
    const { handler, from, upTo, joins, owed = [] } = missed;
    const row = byId(handler);
    if (row.waitsFrom !== from) return from;
    row.waitsFrom = joins && (moved || !fanOut) ? null : upTo;
    for (const event of owed) row.owed.delete(event);
    for (const task of missed.tasks) make(task, now);
    return row.waitsFrom;
  }

  /** Events that were undecided turn out to be newer than the store, or history. */
  function decide(): number[] {
    const { newFrom, historyTo } = decidedBy(data.birth());
    for (const [event, { cursor, ready }] of undecided)
      if (!ready && cursor < newFrom && cursor <= historyTo && undecided.delete(event)) count({ undecided: -1 });
    const decided = [...undecided].filter(([, { cursor, ready }]) => ready || cursor >= newFrom);
    return decided.toSorted(([, a], [, b]) => (a.cursor < b.cursor ? -1 : 1)).map(([event]) => event);
  }

  function turn(given: Turn): TurnResult {
    const { now, fanOut, missed, settle: ended } = given;
    // Nothing is written if one of the handlers is unknown.
    for (const { handler } of [...(fanOut?.tasks ?? []), ...(missed?.tasks ?? [])]) byId(handler);
    const fenced = ended.filter((settlement) => !settle(settlement, now)).length;
    count({ fenced });
    decide();
    const moved = fanOut?.from === fannedOut();
    const behind = makeMissed(given, moved);
    if (fanOut && moved) {
      state.set('fanned_out', fanOut.upTo);
      for (const { event, cursor } of fanOut.undecided ?? []) {
        if (!undecided.has(event)) count({ undecided: 1 });
        undecided.set(event, undecided.get(event) ?? { cursor: BigInt(cursor), ready: false });
      }
      for (const event of fanOut.decided ?? []) {
        if (undecided.delete(event)) count({ undecided: -1 });
        for (const row of handlers) if (!row.loaded && row.waitsFrom !== null) row.owed.add(event);
      }
      for (const task of withoutMissed(fanOut, missed, behind)) make(task, now);
    }
    const unproven = lanes.advance(now);
    return { ...lanes.claimUpTo(given), fenced, unproven, behind };
  }

  function isolated(now: number, ids: number[]): TaskRow | undefined {
    const isFree = (row: TaskRow): boolean => row.alone || !lanes.laneOf(row)?.waiting.some(({ claim }) => claim);
    return [...tasks.values()].find(
      (row) => row.isolated && row.dueAt <= now && ids.includes(row.handler) && !row.claim && isFree(row),
    );
  }

  const work: WorkStore = {
    async register(names, files = { of: new Map(), broken: [] }) {
      const known = handlers.map((row) => ({ ...row }));
      for (const row of handlers.filter(({ name }) => !names.includes(name))) {
        const waits = (row.loaded || row.waitsFrom !== null) && mayBeBroken(row, known, files);
        Object.assign(row, { loaded: false, waitsFrom: waits ? (row.waitsFrom ?? fannedOut()) : null });
      }
      for (const name of names) {
        let row = handlers.find((one) => one.name === name);
        if (!row)
          handlers.push(
            (row = { id: handlers.length + 1, name, loaded: true, file: null, waitsFrom: null, owed: new Set() }),
          );
        Object.assign(row, { loaded: true, file: files.of.get(name) ?? row.file });
      }
      for (const row of handlers) if (row.waitsFrom === null) row.owed.clear();
      return work.idsOf(names);
    },
    idsOf: async (names) =>
      new Map(handlers.filter(({ name }) => names.includes(name)).map(({ name, id }) => [name, id])),
    behind: async () =>
      new Map(handlers.flatMap(({ id, loaded, waitsFrom }) => (loaded && waitsFrom !== null ? [[id, waitsFrom]] : []))),
    missed: async (after, upTo, limit) => events.slice(after, Math.min(upTo, after + limit)),
    owed: async (handler, limit) => [...byId(handler).owed].slice(0, limit).flatMap((seq) => events[seq - 1] ?? []),
    async pending(limit) {
      const from = fannedOut();
      const decided = decide()
        .slice(0, limit)
        .flatMap((seq) => events[seq - 1] ?? []);
      return {
        from,
        watermark: data.cursor('watermark'),
        birth: data.birth(),
        events: events.slice(from, from + limit),
        decided,
      };
    },
    // Nobody can ask for a rerun, because this store has no admin role.
    rerun: async () => null,
    turn: async (given) => turn(given),
    async clockStepped(ms, now) {
      for (const row of tasks.values()) {
        if (row.state !== 'ready' || Math.max(row.releaseAt, row.dueAt, row.holdUntil ?? 0) <= Math.min(now, now - ms))
          continue;
        const holdUntil = row.holdUntil === null ? null : row.holdUntil + ms;
        Object.assign(row, { releaseAt: row.releaseAt + ms, dueAt: row.dueAt + ms, holdUntil });
      }
      for (const lane of data.lanes.values()) lanes.learn(lane, now);
    },
    seenAt: async () => Number(state.get('run_seen') ?? 0) || null,
    async claimIsolated(now, boot, ids) {
      const row = isolated(now, ids);
      const claim = row && lanes.claim(row, { now, boot, chain: { recalled: false } });
      if (row) lanes.learn(lanes.laneOf(row), now);
      return claim;
    },
    async noteTask(claim, name, value) {
      const notes = holds(claim)?.notes;
      if (notes && !notes.has(name) && notes.size >= NOTES) refuse(`a task has at most ${NOTES} notes`);
      return notes?.set(name, value) !== undefined;
    },
    setup: async (given) => void (await tables.write(given)),
    read: tables.read,
    complete: (claim, now, given) =>
      tables.write(
        given,
        () => holds(claim) !== undefined,
        () => void settle({ claim, state: 'done', error: null }, now),
      ),
  };

  const processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'> = {
    async nextBoot() {
      state.set('boot', Number(state.get('boot') ?? 0) + 1);
      return Number(state.get('boot'));
    },
    async giveBack(alive, now, crash) {
      const orphans = [...tasks.values()].filter(({ claim }) => claim && !alive.includes(claim.boot));
      const counted = Map.groupBy(orphans, ({ claim }) => claim?.boot);
      return orphans.map((row): GivenBack => {
        const { attempt = 1, boot, startedAt = now, late = false, event } = row.claim ?? {};
        const alone = counted.get(boot)?.length === 1;
        const { name } = byId(row.handler);
        Object.assign(row, { claim: null, isolated: true, attempts: attempt - 1, dueAt: now });
        const { crashes, error, next } = afterCrash(crash, name, attempt, row.crashes);
        const dead = alone && next === 'dead';
        if (alone) Object.assign(row, { attempts: attempt, crashes, error, startedAt });
        if (alone && next !== 'dead')
          Object.assign(row, { dueAt: now + next.delayMs, holdUntil: row.holdUntil ?? now + next.holdMs });
        if (dead) {
          Object.assign(row, { state: 'dead', isolated: false, late });
          lanes.leave(row);
          lanes.finish(row);
        }
        lanes.learn(lanes.laneOf(row), now);
        if (alone) count({ [`attempts.${dead ? 'dead' : 'retry'}.${name}`]: 1 });
        count({ 'tasks.running': -1, [dead ? 'tasks.dead' : 'tasks.ready']: 1 });
        return { handler: name, key: event?.key ?? '', attempt, alone, dead };
      });
    },
    isolatedDue: async (now, names) => isolated(now, [...(await work.idsOf(names)).values()]) !== undefined,
  };

  return { work, processes };
}

function refuse(words: string): never {
  throw new Error(words);
}
