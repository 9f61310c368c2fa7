// Runs the store and the models side by side. Every step goes to both, and the store may do only what the models
// allow. When a process dies, its objects are dropped, and new objects read the same store.
import { tasksOf } from '../../../src/run/new-tasks.ts';
import type { Claim, Settlement, TurnResult } from '../../../src/store/work.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { hold } from './check.ts';
import { readingOf, T0, type OpenKit, type Process, type Sent } from './kit.ts';
import { createIdentity, type Row } from './model.ts';
import { createOrder, HOLD_MS, WINDOW_MS, type Order, type Task } from './order.ts';

/** Room for more tasks than a case can have. */
export const PLENTY = 64;

export type How = 'done' | 'completed' | 'failed';
export interface Turned {
  ends: number;
  how: How;
  reads: number;
  room: number;
}

export type Machine = Awaited<ReturnType<typeof createMachine>>;

export async function createMachine(openKit: OpenKit) {
  const { query, close, events, owner, start } = openKit();
  const identity = createIdentity();
  const order = createOrder();
  const atWork = new Map<Task, Claim>();
  /** Claims of dead processes, which `settleDead` tries to settle. */
  const deadClaims: Claim[] = [];
  let now = T0;
  let run = await start();
  let isolation: Process | undefined;

  async function commit(sent: Sent[], watermark: string | null): Promise<void> {
    const readings = sent.map(readingOf);
    const proof = watermark === null ? {} : { watermark: watermark as Cursor };
    const accepted = await events.accept({ readings, now, ...proof });
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

  /**
   * One turn of `run`: ends up to `ends` of its claims, makes tasks of up to `reads` events, and claims up to `room`
   * tasks.
   */
  async function turn({ ends, how, reads, room }: Turned): Promise<TurnResult> {
    const mine = [...atWork].filter(([, { boot }]) => boot === run.boot).slice(0, ends);
    if (how === 'completed')
      for (const [, claim] of mine) hold(await complete(claim), () => `${claim.event.key} could not be completed`);
    const settle = how === 'completed' ? [] : mine.map(([, claim]) => settlementOf(claim, how));
    const fanOut = await plan(reads);
    const turned = await run.store.turn({ now, boot: run.boot, settle, fanOut, room, handlers: run.ids });
    hold(turned.fenced === 0, 'the verdict of a claim that holds was refused');
    for (const [task] of mine) end(task, how);
    hold(turned.claims.length <= room, 'more was claimed than there is room');
    for (const claim of turned.claims) claimed(claim);
    const isAssigned = order.tasks.every(({ state }) => state !== 'unassigned');
    const left = room >= PLENTY && isAssigned ? order.tasks.find((task) => order.isDue(task, now)) : undefined;
    hold(!left, () => `${left?.name} was due but not claimed`);
    return turned;
  }

  async function plan(limit: number) {
    const found = await run.store.pending(limit);
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

  /** Ends the task as `ctx.complete` does. */
  function complete(claim: Claim): Promise<boolean> {
    return run.store.complete(claim, now, () => {});
  }

  function end(task: Task, how: How): void {
    atWork.delete(task);
    if (how === 'failed') order.failed(task, now, now + 1_000);
    else order.done(task);
  }

  /**
   * One step of the process for isolated tasks: it claims a task, or ends the task that it has claimed. False: there
   * was nothing to do.
   */
  async function alone(): Promise<boolean> {
    if (!isolation && !order.tasks.some(({ isolated }) => isolated)) return false;
    isolation ??= await start();
    const own = [...atWork].find(([, { boot }]) => boot === isolation?.boot);
    if (own) {
      const settle = [settlementOf(own[1], 'done')];
      await isolation.store.turn({ now, boot: isolation.boot, settle, fanOut: null, room: 0, handlers: [] });
      end(own[0], 'done');
      return true;
    }
    const claim = await isolation.store.claimIsolated(now, isolation.boot, isolation.ids);
    if (claim) claimed(claim);
    return claim !== undefined;
  }

  async function die(who: 'run' | 'isolation'): Promise<void> {
    const dead = who === 'run' ? run : isolation;
    if (!dead) return;
    if (who === 'run') run = await start();
    else isolation = undefined;
    await owner.giveBack([run.boot, ...(isolation ? [isolation.boot] : [])], now);
    order.died(dead.boot, now, (task) => atWork.get(task)?.attempt ?? 1);
    for (const [task, claim] of atWork) {
      if (claim.boot !== dead.boot) continue;
      atWork.delete(task);
      deadClaims.push(claim);
    }
  }

  /** A settlement from a dead process must have no effect. */
  async function settleDead(): Promise<void> {
    const claim = deadClaims.pop();
    if (!claim) return;
    const settle = [settlementOf(claim, 'done')];
    const { fenced } = await run.store.turn({ now, boot: claim.boot, settle, fanOut: null, room: 0, handlers: [] });
    hold(fenced === 1 && !(await complete(claim)), () => `a dead process ended ${claim.event.key}`);
  }

  /** Runs until every task is done. The clock jumps to the next moment at which the store reports a task as due. */
  async function finish(newest: string): Promise<void> {
    await commit([], newest);
    for (let turns = 0; turns < 1_000; turns++) {
      const { claims, nextAt } = await turn({ ends: Infinity, how: 'done', reads: 100, room: PLENTY });
      if ((await alone()) || claims.length > 0 || atWork.size > 0) continue;
      // An isolated task that is due and was not claimed waits for a task of its lane.
      const dues = order.tasks.flatMap(({ isolated, dueAt }) => (isolated && dueAt > now ? dueAt : []));
      const at = Math.min(nextAt ?? Infinity, ...dues);
      if (at === Infinity) break;
      now = Math.max(now, at);
    }
    const left = order.tasks.find(({ state }) => state !== 'done');
    hold(!left, () => `${left?.name} stays ${left?.state} for ever`);
    const keys = query<{ key: string }>(
      `select case when cursor is null or conflicting = 1 then 'i:' || id else 'c:' || cursor end as key from events order by seq`,
    ).map(({ key }) => key);
    hold(
      // Within a batch, new events are numbered before those that contradict stored ones.
      String(keys.toSorted()) === String(identity.rows.map(({ key }) => key).toSorted()),
      () => `the rows are ${keys.join()}`,
    );
    const [done = 0] = numbersOf(`select count(*) as n from tasks where state = 'done'`);
    hold(done === order.tasks.length, () => `${done} tasks are done instead of ${order.tasks.length}`);
    const [counted = 0] = numbersOf(`select value as n from counters where name = 'tasks.done'`);
    hold(counted === done, () => `${counted} completions were counted, of ${done} tasks`);
  }

  const numbersOf = (sql: string): number[] => query<{ n: number }>(sql).map(({ n }) => n);

  return {
    commit,
    turn,
    alone,
    die,
    settleDead,
    finish,
    tick: (ms: number) => void (now += ms),
    close,
  };
}
