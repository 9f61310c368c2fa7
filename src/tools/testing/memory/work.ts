// The work and process roles in memory. The handlers' own tables are in an SQLite database, apart from the kit's data.
import { iso, systemClock } from '../../../base/clock.ts';
import { gapId } from '../../../store/gap-event.ts';
import { mayBeBroken, withoutMissed } from '../../../store/missed.ts';
import { afterCrash, type CrashPolicy, type ProcessStore } from '../../../store/processes.ts';
import { countsOf } from '../../../store/settlement.ts';
import { connect } from '../../../store/sqlite/connection.ts';
import { createDatabase } from '../../../store/sqlite/database.ts';
import { inTransaction, selected } from '../../../store/sql/work/tx.ts';
import { HANDLERS } from '../../../store/sql/work/waiting.ts';
import {
  NOTES,
  type Claim,
  type NewTask,
  type Settlement,
  type SetupStep,
  type Turn,
  type WorkStore,
} from '../../../store/work.ts';
import type { createIngest } from './ingest.ts';
import type { createLanes, TaskRow } from './lanes.ts';

/** `waitsFrom`: the last event for which the handler has its tasks, if it missed events. */
type Handler = { id: number; name: string; loaded: boolean; file: string | null; waitsFrom: number | null };

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createWork(ingest: ReturnType<typeof createIngest>, lanes: ReturnType<typeof createLanes>) {
  const { events, gaps, state, watermark, note } = ingest;
  const { tasks } = lanes;
  /** The id of a handler is its place in the list, from 1. */
  const handlers: Handler[] = [];
  const handlerOf = (id: number): Handler => handlers[id - 1] as Handler;
  const birth = { at: systemClock.now(), reading: 'none', end: null, older: null, younger: null } as const;
  const connection = connect(':memory:', { create: true });
  const tables = createDatabase(connection, ':memory:');
  const steps = new Map<string, SetupStep>();
  /** The last event that has its tasks. */
  let fannedOut = 0;
  let boots = 0;
  let last: Promise<unknown> = Promise.resolve();

  /** One step after the other, so that no other step gets into the transaction of a handler, or ends its claim. */
  function inTurn<Result>(step: () => Result | Promise<Result>): Promise<Result> {
    const result = last.then(step);
    last = result.catch(() => {});
    return result;
  }

  const write: WorkStore['setup'] = (given) => tables.write(() => inTransaction(tables, given));

  function holds({ task, attempt, boot }: Claim): TaskRow | undefined {
    const row = tasks.get(task);
    return row?.claim?.attempt === attempt && row.claim.boot === boot ? row : undefined;
  }

  /** False: the claim no longer holds. */
  function settle(settlement: Settlement, now: number): boolean {
    const { claim, error, spent = true } = settlement;
    const row = holds(claim);
    if (!row) return false;
    const { name } = handlerOf(claim.handler);
    Object.assign(row, { claim: null, error, attempts: claim.attempt - (spent ? 0 : 1), isolated: false });
    if (settlement.state === 'ready') {
      const { dueAt, holdMs, deferredMs = 0 } = settlement;
      const holdUntil = row.holdUntil ?? (holdMs === null ? null : now + holdMs);
      Object.assign(row, { dueAt, holdUntil, deferred: row.deferred + deferredMs });
    } else Object.assign(row, { state: settlement.state, late: claim.late });
    const gap = settlement.state === 'done' && gaps.find(({ id }) => gapId(id) === claim.event.id);
    if (gap) Object.assign(gap, { closedAt: iso(now), closedBy: name });
    lanes.ended(settlement, now);
    note(countsOf([settlement], () => name));
    return true;
  }

  function make(given: NewTask, now: number): void {
    const { event, handler, lane, releaseAt, strict = false, rerun = 0 } = given;
    const id = event * HANDLERS + handler;
    if (tasks.has(id)) return;
    const cursor = given.cursor === null ? null : BigInt(given.cursor);
    const inLane = lane !== null && cursor !== null;
    const its = { id, event, handler, cursor, strict, rerun, releaseAt, dueAt: inLane ? now : releaseAt };
    const untried = { state: 'ready', isolated: false, attempts: 0, deferred: 0, crashes: 0, late: false } as const;
    const none = { lane: null, alone: true, holdUntil: null, error: null, claim: null, notes: new Map() };
    const row = { ...its, ...untried, ...none };
    tasks.set(id, row);
    if (inLane) lanes.enter(row, lane, cursor);
    note({ 'tasks.ready': 1, [`waiting.${handlerOf(handler).name}`]: 1 });
  }

  /** Returns the last event for which the handler has its tasks; null: it has caught up. */
  function makeMissed({ missed, fanOut, now }: Turn, moved: boolean): number | null {
    if (!missed) return null;
    const row = handlerOf(missed.handler);
    if (row.waitsFrom !== missed.from) return missed.from;
    row.waitsFrom = missed.joins && (moved || !fanOut) ? null : missed.upTo;
    for (const task of missed.tasks) make(task, now);
    return row.waitsFrom;
  }

  function turn(given: Turn) {
    const { now, fanOut, missed, settle: settlements } = given;
    // Nothing is written if one of the handlers is unknown.
    for (const { handler } of [...(fanOut?.tasks ?? []), ...(missed?.tasks ?? [])])
      if (!handlers[handler - 1]) throw new Error(`handler ${handler} is unknown`);
    const fenced = settlements.filter((settlement) => !settle(settlement, now)).length;
    note({ fenced });
    const moved = fanOut?.from === fannedOut;
    const behind = makeMissed(given, moved);
    if (fanOut && moved) {
      fannedOut = fanOut.upTo;
      for (const task of withoutMissed(fanOut, missed, behind)) make(task, now);
    }
    const unproven = lanes.advance(fannedOut, now);
    return { ...lanes.claimUpTo(given), fenced, unproven, behind };
  }

  function giveBack(alive: number[], now: number, crash?: CrashPolicy) {
    const orphans = [...tasks.values()].flatMap(({ claim }) => (claim && !alive.includes(claim.boot) ? [claim] : []));
    return orphans.map((claim) => {
      const row = tasks.get(claim.task) as TaskRow;
      const alone = orphans.filter(({ boot }) => boot === claim.boot).length === 1;
      const { name: handler } = handlerOf(claim.handler);
      const { crashes, error, next } = afterCrash(crash, handler, claim.attempt, row.crashes);
      const dead = alone && next === 'dead';
      if (!alone) settle({ claim, state: 'ready', error: claim.error, dueAt: now, holdMs: null, spent: false }, now);
      else if (next === 'dead') settle({ claim, state: 'dead', error }, now);
      else settle({ claim, state: 'ready', error, dueAt: now + next.delayMs, holdMs: next.holdMs }, now);
      Object.assign(row, { isolated: !dead, crashes: alone ? crashes : row.crashes });
      lanes.learn(row, now);
      return { handler, key: claim.event.key, attempt: claim.attempt, alone, dead };
    });
  }

  const work: WorkStore = {
    async register(names, files = { of: new Map(), broken: [] }) {
      for (const row of handlers.filter(({ name }) => !names.includes(name))) {
        const waits = (row.loaded || row.waitsFrom !== null) && mayBeBroken(row, handlers, files);
        Object.assign(row, { loaded: false, waitsFrom: waits ? (row.waitsFrom ?? fannedOut) : null });
      }
      for (const name of names) {
        const known = handlers.find((row) => row.name === name);
        const row = known ?? { id: handlers.length + 1, name, file: null, waitsFrom: null };
        handlers[row.id - 1] = { ...row, loaded: true, file: files.of.get(name) ?? row.file };
      }
      return work.idsOf(names);
    },
    idsOf: async (names) => new Map(handlers.flatMap(({ name, id }) => (names.includes(name) ? [[name, id]] : []))),
    behind: async () =>
      new Map(handlers.flatMap(({ id, loaded, waitsFrom }) => (loaded && waitsFrom !== null ? [[id, waitsFrom]] : []))),
    missed: async (after, upTo, limit) => events.slice(after, Math.min(upTo, after + limit)),
    async pending(limit) {
      const from = fannedOut;
      return { from, watermark: watermark(), birth, events: events.slice(from, from + limit), decided: [] };
    },
    // Replay reads no history into this store, so no event waits for a decision. Nobody can ask for a rerun.
    owed: async () => [],
    rerun: async () => null,
    turn: (given) => inTurn(() => turn(given)),
    async clockStepped(ms, now) {
      for (const row of tasks.values()) {
        const { releaseAt, dueAt, holdUntil } = row;
        if (Math.max(releaseAt, dueAt, holdUntil ?? 0) <= Math.min(now, now - ms)) continue;
        Object.assign(row, { releaseAt: releaseAt + ms, dueAt: dueAt + ms, holdUntil: holdUntil && holdUntil + ms });
        lanes.learn(row, now);
      }
    },
    seenAt: async () => Number(state.get('run_seen') ?? 0) || null,
    claimIsolated: async (...given) => lanes.claimIsolated(...given),
    noteTask: (claim, name, value) =>
      inTurn(() => {
        const notes = holds(claim)?.notes;
        if (notes && !notes.has(name) && notes.size >= NOTES) throw new Error(`a task has at most ${NOTES} notes`);
        return notes?.set(name, value) !== undefined;
      }),
    setup: (given, step) =>
      inTurn(async () => {
        const name = step && `${step.handler} ${step.step}`;
        if (name && steps.has(name)) return;
        await write(given);
        if (name) steps.set(name, { handler: step.handler, step: step.step, digest: step.digest });
      }),
    steps: async () => [...steps.values()],
    read: (sql, values) => inTurn(() => selected(tables.own, sql, values)),
    complete: (claim, now, given) =>
      inTurn(async () => {
        if (!holds(claim)) return false;
        await write(given);
        return settle({ claim, state: 'done', error: null }, now);
      }),
  };

  const processes: Pick<ProcessStore, 'nextBoot' | 'giveBack' | 'isolatedDue'> = {
    nextBoot: async () => ++boots,
    giveBack: (alive, now, crash) => inTurn(() => giveBack(alive, now, crash)),
    isolatedDue: async (now, names) => lanes.isolated(now, [...(await work.idsOf(names)).values()]) !== undefined,
  };

  return { work, processes, close: () => void connection.close() };
}
