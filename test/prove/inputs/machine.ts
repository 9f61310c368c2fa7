// The store at work and the models beside it: every step is taken by both, and the store may do only what they allow. A
// process that dies is a part of the store whose memory is gone; the next one reads the same file.
import Database from 'better-sqlite3';
import { tasksOf } from '../../../src/run/assign.ts';
import type { Loaded } from '../../../src/run/load.ts';
import { connect, migrate } from '../../../src/store/sqlite/connection.ts';
import { createEventStore } from '../../../src/store/sqlite/events.ts';
import { createOwner } from '../../../src/store/sqlite/owner.ts';
import { createSession } from '../../../src/store/sqlite/session.ts';
import { createTaskStore } from '../../../src/store/sqlite/tasks.ts';
import type { Claim, Settlement, TurnResult } from '../../../src/store/store.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../../src/wire/event.ts';
import { handlerOf } from '../../run/fixture.ts';
import { hold } from './check.ts';
import { createIdentity, type Arrival, type Row } from './model.ts';
import { createOrder, HOLD_MS, WINDOW_MS, type Order, type Task } from './order.ts';

const T0 = Date.UTC(2026, 0, 1);
const ORDERS: Order[] = ['arrival', 'window', 'strict'];
const HANDLERS: Loaded[] = ORDERS.map((order) => handlerOf({ name: order, order, lane: 'session' }));

export interface Sent extends Arrival {
  origin: 'webhook' | 'replay' | 'stream';
  session: string;
}

/** An empty store, migrated once. */
const empty = (() => {
  const db = connect(':memory:', { create: true });
  migrate(db, ':memory:');
  return db.serialize();
})();

export type Machine = ReturnType<typeof createMachine>;

export function createMachine() {
  const db = new Database(empty);
  const session = createSession(db, ':memory:', 'NORMAL');
  const events = createEventStore(session, 30 * 86_400_000);
  const owner = createOwner(session);
  const identity = createIdentity();
  const order = createOrder();
  const atWork = new Map<Task, Claim>();
  /** Of processes that are dead. */
  const ghosts: Claim[] = [];
  const rows: Row[] = [];
  let now = T0;
  let run = start();
  let solo: ReturnType<typeof start> | undefined;

  function start() {
    const store = createTaskStore(session);
    const ids = store.register(ORDERS);
    const handlers = new Map(HANDLERS.map((handler) => [ids.get(handler.name) ?? 0, handler]));
    return { store, boot: owner.nextBoot(), handlers, ids: [...handlers.keys()] };
  }

  function commit(sent: Sent[], watermark: string | null): void {
    const readings = sent.map(readingOf);
    const proof = watermark === null ? {} : { watermark: watermark as Cursor };
    const accepted = events.accept({ readings, now, ...proof });
    if (watermark !== null) order.proved(BigInt(watermark));
    for (const [index, one] of sent.entries()) {
      const { row, conflict } = identity.accept(one);
      const told = accepted[index];
      const what = `${one.origin} ${one.id} ${one.cursor}`;
      hold(told?.verdict === (row ? 'new' : 'duplicate'), () => `${what} was taken as ${told?.verdict}`);
      hold(
        conflict === null || conflict === (told?.conflict !== undefined),
        () => `${what}: conflict ${told?.conflict}`,
      );
      if (row) expectTasks(row, one);
    }
  }

  function expectTasks(row: Row, { cursor, session: lane }: Sent): void {
    rows.push(row);
    for (const [handler, { name }] of run.handlers)
      order.tasks.push({
        name: `${row.key} of ${name}`,
        handler,
        order: name as Order,
        lane: cursor === null ? null : `${name}/${lane}`,
        cursor: cursor === null ? null : BigInt(cursor),
        receivedAt: now,
        state: 'unassigned',
        boot: 0,
        dueAt: 0,
        holdUntil: null,
        suspect: false,
      });
  }

  /** What `run` does in a turn: settles the first `ends` of those at work, makes tasks of `reads` events, claims. */
  function turn({
    ends,
    fails,
    reads,
    room,
  }: {
    ends: number;
    fails: boolean;
    reads: number;
    room: number;
  }): TurnResult {
    const mine = [...atWork].filter(([, { boot }]) => boot === run.boot).slice(0, ends);
    const settle = mine.map(([, claim]) => settlementOf(claim, fails));
    const assign = plan(reads);
    const turned = run.store.turn({ now, boot: run.boot, settle, assign, room, handlers: run.ids });
    hold(turned.fenced === 0, 'the verdict of a claim that holds was refused');
    for (const [task] of mine) end(task, fails);
    hold(turned.claims.length <= room, 'more was claimed than there is room');
    for (const claim of turned.claims) claimed(claim);
    const left = room >= 60 && isAssigned() ? order.tasks.find((task) => order.isDue(task, now)) : undefined;
    hold(!left, () => `${left?.name} was due, and left waiting`);
    return turned;
  }

  function plan(limit: number) {
    const found = run.store.unassigned(limit);
    const last = found.events.at(-1);
    if (!last) return null;
    const options = { handlers: run.handlers, windowMs: WINDOW_MS, fetchesHistory: false, now, onLaneFault: () => {} };
    const tasks = found.events.flatMap((event) => tasksOf(event, found, options));
    for (const { key } of found.events)
      for (const task of tasksNamed(key)) Object.assign(task, { state: 'waiting', dueAt: 0 });
    return { from: found.from, upTo: last.seq, tasks };
  }

  function tasksNamed(key: string): Task[] {
    return order.tasks.filter(({ name }) => name.startsWith(`${key} of `));
  }

  function isAssigned(): boolean {
    return order.tasks.every(({ state }) => state !== 'unassigned');
  }

  function claimed(claim: Claim): void {
    const task = tasksNamed(claim.event.key).find(({ handler }) => handler === claim.handler);
    hold(task !== undefined, () => `a task of ${claim.event.key} was claimed, which is none`);
    order.claimed(task, claim, now);
    atWork.set(task, claim);
  }

  function settlementOf(claim: Claim, fails: boolean): Settlement {
    return fails
      ? { claim, state: 'ready', error: 'failed', dueAt: now + 1_000, holdMs: HOLD_MS }
      : { claim, state: 'done', error: null };
  }

  function end(task: Task, fails: boolean): void {
    atWork.delete(task);
    if (fails) order.failed(task, now, now + 1_000);
    else order.done(task);
  }

  /** What the process for suspects does: takes one, or ends the one that it has. False where it has none. */
  function alone(): boolean {
    if (!solo && !order.tasks.some(({ suspect }) => suspect)) return false;
    solo ??= start();
    const own = [...atWork].find(([, { boot }]) => boot === solo?.boot);
    if (own) {
      const settle = [settlementOf(own[1], false)];
      solo.store.turn({ now, boot: solo.boot, settle, assign: null, room: 0, handlers: [] });
      end(own[0], false);
      return true;
    }
    const claim = solo.store.claimSuspect(now, solo.boot, solo.ids);
    if (claim) claimed(claim);
    return claim !== undefined;
  }

  function die(who: 'run' | 'solo'): void {
    const dead = who === 'run' ? run : solo;
    if (!dead) return;
    if (who === 'run') run = start();
    else solo = undefined;
    owner.giveBack([run.boot, ...(solo ? [solo.boot] : [])], now);
    order.died(dead.boot, now, (task) => atWork.get(task)?.attempt ?? 1);
    for (const [task, claim] of atWork) {
      if (claim.boot !== dead.boot) continue;
      atWork.delete(task);
      ghosts.push(claim);
    }
  }

  /** What comes back from a dead process has no effect. */
  function haunt(): void {
    const claim = ghosts.pop();
    if (!claim) return;
    const settle = [settlementOf(claim, false)];
    const { fenced } = run.store.turn({ now, boot: claim.boot, settle, assign: null, room: 0, handlers: [] });
    hold(fenced === 1, () => `a dead process ended ${claim.event.key}`);
  }

  /** Lets everything come to its end. The clock jumps only to where the store says that something is due. */
  function finish(newest: string): void {
    commit([], newest);
    for (let turns = 0; turns < 1_000; turns++) {
      const { claims, nextAt } = turn({ ends: Infinity, fails: false, reads: 100, room: 64 });
      if (alone() || claims.length > 0 || atWork.size > 0) continue;
      const dues = order.tasks.flatMap(({ suspect, dueAt }) => (suspect ? dueAt : []));
      const at = Math.min(nextAt ?? Infinity, ...dues);
      if (at === Infinity) break;
      now = Math.max(now, at);
    }
    const left = order.tasks.find(({ state }) => state !== 'done');
    hold(!left, () => `${left?.name} stays ${left?.state} for ever`);
    const keys = db.prepare<[], string>(
      `select case when cursor is null or disputed then 'i:' || id else 'c:' || cursor end from events order by seq`,
    );
    hold(String(keys.pluck().all()) === String(rows.map(({ key }) => key)), () => `the rows are ${keys.all().join()}`);
    const done = db.prepare<[], number>(`select count(*) from tasks where state = 'done'`).pluck().get();
    hold(done === order.tasks.length, () => `${done} tasks are done instead of ${order.tasks.length}`);
    const counted = db.prepare<[], number>(`select value from counters where name = 'tasks.done'`).pluck().get() ?? 0;
    hold(counted === done, () => `${counted} completions were counted, of ${done} tasks`);
  }

  return {
    commit,
    turn,
    alone: () => void alone(),
    die,
    haunt,
    finish,
    tick: (ms: number) => void (now += ms),
    close: () => db.close(),
  };
}

function readingOf({ origin, id, cursor, data, session }: Sent): Reading {
  const held = { Thing: { session_id: session, timestamp_unix_ms: T0, text: data } };
  if (origin !== 'webhook') return readItem(origin, cursor as Cursor, JSON.stringify(held));
  return readDelivery(Buffer.from(JSON.stringify({ id, type: 'Thing', cursor, session_id: session, data: held })));
}
