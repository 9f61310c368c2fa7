// The store at work and the models beside it: every step is taken by both, and the store may do only what they allow. A
// process that dies is a part of the store whose memory is gone; the next one reads the same file.
import { tasksOf } from '../../../src/run/assign.ts';
import type { Claim, Settlement, TurnResult } from '../../../src/store/work.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { hold } from './check.ts';
import { openKit, readingOf, T0, type Process, type Sent } from './kit.ts';
import { createIdentity, type Row } from './model.ts';
import { createOrder, HOLD_MS, WINDOW_MS, type Order, type Task } from './order.ts';

/** Room for every task that there can be. */
export const PLENTY = 64;

export type How = 'done' | 'completed' | 'failed';
export interface Turned {
  ends: number;
  how: How;
  reads: number;
  room: number;
}

export type Machine = ReturnType<typeof createMachine>;

export function createMachine() {
  const { db, events, owner, start } = openKit();
  const identity = createIdentity();
  const order = createOrder();
  const atWork = new Map<Task, Claim>();
  /** Of processes that are dead. */
  const ghosts: Claim[] = [];
  let now = T0;
  let run = start();
  let solo: Process | undefined;

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
        () => `${what}: conflict ${told?.conflict?.reason}`,
      );
      if (row) expectTasks(row, one);
    }
  }

  function expectTasks(row: Row, { cursor, session: lane }: Sent): void {
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
        alone: false,
        dueAt: 0,
        holdUntil: null,
        isolated: false,
      });
  }

  /** What `run` does in a turn: ends the first `ends` of those at work, makes tasks of `reads` events, claims. */
  function turn({ ends, how, reads, room }: Turned): TurnResult {
    const mine = [...atWork].filter(([, { boot }]) => boot === run.boot).slice(0, ends);
    if (how === 'completed')
      for (const [, claim] of mine) hold(complete(claim), () => `${claim.event.key} could not be completed`);
    const settle = how === 'completed' ? [] : mine.map(([, claim]) => settlementOf(claim, how));
    const turned = run.store.turn({ now, boot: run.boot, settle, assign: plan(reads), room, handlers: run.ids });
    hold(turned.fenced === 0, 'the verdict of a claim that holds was refused');
    for (const [task] of mine) end(task, how);
    hold(turned.claims.length <= room, 'more was claimed than there is room');
    for (const claim of turned.claims) claimed(claim);
    const isAssigned = order.tasks.every(({ state }) => state !== 'unassigned');
    const left = room >= PLENTY && isAssigned ? order.tasks.find((task) => order.isDue(task, now)) : undefined;
    hold(!left, () => `${left?.name} was due, and left waiting`);
    return turned;
  }

  function plan(limit: number) {
    const found = run.store.unassigned(limit);
    const last = found.events.at(-1);
    if (!last) return null;
    const options = { handlers: run.handlers, windowMs: WINDOW_MS, now, onLaneFault: () => {} };
    const tasks = found.events.flatMap((event) => tasksOf(event, found, options));
    for (const { key } of found.events)
      for (const task of tasksNamed(key)) Object.assign(task, { state: 'waiting', dueAt: 0 });
    return { from: found.from, upTo: last.seq, tasks };
  }

  function tasksNamed(key: string): Task[] {
    return order.tasks.filter(({ name }) => name.startsWith(`${key} of `));
  }

  function claimed(claim: Claim): void {
    const task = tasksNamed(claim.event.key).find(({ handler }) => handler === claim.handler);
    hold(task !== undefined, () => `a task of ${claim.event.key} was claimed, which is none`);
    order.claimed(task, claim, now);
    atWork.set(task, claim);
  }

  function settlementOf(claim: Claim, how: How): Settlement {
    return how === 'failed'
      ? { claim, state: 'ready', error: 'failed', dueAt: now + 1_000, holdMs: HOLD_MS }
      : { claim, state: 'done', error: null };
  }

  /** By `ctx.complete`. */
  function complete(claim: Claim): boolean {
    return run.store.complete(claim, now, () => {});
  }

  function end(task: Task, how: How): void {
    atWork.delete(task);
    if (how === 'failed') order.failed(task, now, now + 1_000);
    else order.done(task);
  }

  /** What the process for suspects does: takes one, or ends the one that it has. False where it has none. */
  function alone(): boolean {
    if (!solo && !order.tasks.some(({ isolated }) => isolated)) return false;
    solo ??= start();
    const own = [...atWork].find(([, { boot }]) => boot === solo?.boot);
    if (own) {
      const settle = [settlementOf(own[1], 'done')];
      solo.store.turn({ now, boot: solo.boot, settle, assign: null, room: 0, handlers: [] });
      end(own[0], 'done');
      return true;
    }
    const claim = solo.store.claimIsolated(now, solo.boot, solo.ids);
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
    const settle = [settlementOf(claim, 'done')];
    const { fenced } = run.store.turn({ now, boot: claim.boot, settle, assign: null, room: 0, handlers: [] });
    hold(fenced === 1 && !complete(claim), () => `a dead process ended ${claim.event.key}`);
  }

  /** Lets everything come to its end. The clock jumps only to where the store says that something is due. */
  function finish(newest: string): void {
    commit([], newest);
    for (let turns = 0; turns < 1_000; turns++) {
      const { claims, nextAt } = turn({ ends: Infinity, how: 'done', reads: 100, room: PLENTY });
      if (alone() || claims.length > 0 || atWork.size > 0) continue;
      const dues = order.tasks.flatMap(({ isolated, dueAt }) => (isolated ? dueAt : []));
      const at = Math.min(nextAt ?? Infinity, ...dues);
      if (at === Infinity) break;
      now = Math.max(now, at);
    }
    const left = order.tasks.find(({ state }) => state !== 'done');
    hold(!left, () => `${left?.name} stays ${left?.state} for ever`);
    const keys = db.prepare<[], string>(
      `select case when cursor is null or conflicting then 'i:' || id else 'c:' || cursor end from events order by seq`,
    );
    hold(
      String(keys.pluck().all()) === String(identity.rows.map(({ key }) => key)),
      () => `the rows are ${keys.all().join()}`,
    );
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
