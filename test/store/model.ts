// A plainly right model of events, lanes, deaths and positions. It is told what the store did, and says what is wrong.
import type { Verdict } from '../../src/store/store.ts';
import type { Claim } from '../../src/store/work.ts';
import { WINDOW, type HandlerDef } from './fixture.ts';

export interface ModelEvent {
  seq: number;
  cursor: number | null;
  id: string | null;
  type: string;
  session: string | null;
  at: number;
  isReplayed: boolean;
}

export interface ModelTask {
  handler: number;
  event: number;
  /** -1: none. */
  cursor: number;
  /** Null: a lane of its own. */
  lane: string | null;
  due: number;
  state: 'waiting' | 'running' | 'done' | 'skipped' | 'dead';
  attempts: number;
  crashes: number;
  aside: boolean;
  /** It has ended before, and was asked for again. */
  rerun: boolean;
  /** Somebody asked for it, so it waits for no watermark. */
  asked: boolean;
}

export class Model {
  now = 0;
  floor = -1;
  /** Where the watermark stood, and since when. */
  readonly proved: { to: number; at: number }[] = [];
  readonly events: ModelEvent[] = [];
  readonly tasks = new Map<string, ModelTask>();
  readonly done = new Map<string, number>();
  readonly positions = new Map<number, number>();
  readonly defs = new Map<number, HandlerDef>();
  readonly paused = new Set<number>();
  loaded = new Set<number>();
  readonly seen = {
    claims: 0,
    late: 0,
    aside: 0,
    suspects: 0,
    dead: 0,
    conflicts: 0,
    reruns: 0,
    pruned: 0,
    removed: 0,
  };

  get watermark(): number {
    return this.proved.at(-1)?.to ?? -1;
  }

  check(holds: boolean, words: string): void {
    if (!holds) throw new Error(words);
  }

  /** What an arrival is. Nothing contradicts null. */
  arrives(one: ModelEvent): Verdict {
    const byCursor = this.events.find(({ cursor }) => cursor !== null && cursor === one.cursor);
    const byId = this.events.find(({ id }) => id !== null && id === one.id);
    const known = byCursor ?? byId;
    if (!known) {
      if (one.isReplayed && one.cursor !== null && one.cursor <= this.floor) {
        this.seen.removed++;
        return 'removed';
      }
      this.events.push(one);
      return 'new';
    }
    const differ = <T>(a: T | null, b: T | null): boolean => a !== null && b !== null && a !== b;
    const isOther = known.type !== one.type || differ(known.session, one.session) || differ(known.cursor, one.cursor);
    if (isOther || (byId && byId !== known)) {
      this.seen.conflicts++;
      return 'conflict';
    }
    // A second replay of the same event writes nothing.
    if (one.isReplayed && known.isReplayed) return 'duplicate';
    known.isReplayed ||= one.isReplayed;
    known.id ??= one.id;
    known.cursor ??= one.cursor;
    known.session ??= one.session;
    return 'duplicate';
  }

  wants = (handler: number, { type }: ModelEvent): boolean => this.defs.get(handler)?.on?.includes(type) ?? true;

  laneOf(handler: number, { cursor, session }: ModelEvent): string | null {
    return cursor === null || this.defs.get(handler)?.name === 'own' ? null : String(session);
  }

  /** A handler's position moved over these events: they became tasks. */
  fannedOut(handler: number, to: number, events = this.events): void {
    const from = this.positions.get(handler) ?? 0;
    this.check(to >= from, 'a position went back');
    for (const event of events) {
      if (event.seq <= from || event.seq > to || !this.wants(handler, event)) continue;
      const waits = event.cursor !== null && this.defs.get(handler)?.order === 'window' ? WINDOW : 0;
      this.add(handler, event, event.at + waits);
    }
    this.positions.set(handler, to);
  }

  add(handler: number, event: ModelEvent, due: number, asked = false): void {
    const key = `${handler}/${event.seq}`;
    this.check(!this.tasks.has(key), `task ${event.seq} of ${handler} was made twice`);
    const about = { handler, event: event.seq, cursor: event.cursor ?? -1, lane: this.laneOf(handler, event), due };
    const fresh = { attempts: 0, crashes: 0, aside: false, state: 'waiting' as const };
    this.tasks.set(key, { ...about, ...fresh, asked, rerun: asked });
  }

  task(handler: number, event: number): ModelTask {
    const task = this.tasks.get(`${handler}/${event}`);
    if (!task) throw new Error(`task ${event} of ${handler} does not exist`);
    return task;
  }

  /** The other tasks of its conversation. */
  beside(task: ModelTask): ModelTask[] {
    const { handler, lane } = task;
    if (lane === null || task.aside) return [];
    return [...this.tasks.values()].filter(
      (other) => other !== task && other.handler === handler && other.lane === lane && !other.aside,
    );
  }

  isProved({ handler, cursor, asked }: ModelTask): boolean {
    return this.defs.get(handler)?.order !== 'strict' || cursor <= this.watermark || asked;
  }

  claimed(claim: Claim, { suspects, chain }: { suspects: boolean; chain: number }): void {
    const { handler } = claim;
    this.check(this.loaded.has(handler) && !this.paused.has(handler), 'claimed for a paused or missing handler');
    this.check(claim.tasks.length <= chain, 'a claim of too many tasks');
    const own = claim.tasks.map(({ event }) => this.task(handler, event));
    for (const [n, task] of own.entries()) {
      const got = claim.tasks[n];
      const name = `task ${task.event} of ${task.handler}`;
      this.seen.claims++;
      this.check(task.state === 'waiting', `${name} was claimed while ${task.state}`);
      this.check(task.due <= this.now, `${name} was claimed early`);
      this.check(suspects === task.crashes > 0, `${name} with ${task.crashes} was claimed by the wrong process`);
      this.check(got?.attempts === task.attempts && got.crashes === task.crashes, `${name} has other counts`);
      const late = !task.rerun && (task.aside || this.isLate(task));
      this.check(got?.late === late || task.cursor <= this.floor, `${name} late: ${String(got?.late)}`);
      if (late) this.seen.late++;
      this.check(this.isProved(task), `${name} is not proved`);
      this.checkOrder(task, own.slice(0, n), name);
    }
    for (const task of own) task.state = 'running';
  }

  checkOrder(task: ModelTask, before: ModelTask[], name: string): void {
    for (const other of this.beside(task)) {
      this.check(other.state !== 'running' || before.includes(other), `${name} beside ${other.event} of its lane`);
      const isFirst = other.cursor < task.cursor && other.state === 'waiting' && !before.includes(other);
      this.check(!isFirst, `${name} before ${other.event}, which is lower`);
    }
    if (task.lane === null || task.aside || task.asked || task.crashes > 0) return;
    const isStrict = this.defs.get(task.handler)?.order === 'strict';
    const until = isStrict ? (this.proved.find(({ to }) => to >= task.cursor)?.at ?? 0) : task.due;
    for (const event of this.events) {
      if (event.seq <= (this.positions.get(task.handler) ?? 0) || !this.wants(task.handler, event)) continue;
      const isFirst = event.at < until && event.cursor !== null && event.cursor < task.cursor;
      const isHere = this.laneOf(task.handler, event) === task.lane;
      this.check(!isFirst || !isHere, `${name} before event ${event.seq}, which is lower and no task yet`);
    }
  }

  isLate(task: ModelTask): boolean {
    const highest = task.lane === null ? undefined : this.done.get(`${task.handler}/${task.lane}`);
    return task.cursor !== -1 && highest !== undefined && task.cursor < highest;
  }

  /** With room for all, no task is left that is due, has its turn, and is (or is not) a suspect. */
  noneLeft(suspects: boolean): void {
    for (const task of this.tasks.values()) {
      if (task.state !== 'waiting' || task.due > this.now || suspects !== task.crashes > 0) continue;
      if (!this.loaded.has(task.handler) || this.paused.has(task.handler) || !this.isProved(task)) continue;
      const isHeld = this.beside(task).some(
        ({ state, cursor }) => state === 'running' || (state === 'waiting' && cursor <= task.cursor),
      );
      this.check(isHeld, `task ${task.event} of ${task.handler} is due, and was not claimed`);
    }
  }

  end(task: ModelTask, as: 'done' | 'skipped' | 'dead'): void {
    this.check(task.state === 'running', `task ${task.event} of ${task.handler} ended while ${task.state}`);
    task.state = as;
    this.passed(task);
  }

  passed(task: ModelTask): void {
    if (task.lane === null || task.aside) return;
    const key = `${task.handler}/${task.lane}`;
    this.done.set(key, Math.max(task.cursor, this.done.get(key) ?? -1));
  }

  failed(task: ModelTask, due: number, { aside, spent }: { aside: boolean; spent: boolean }): void {
    Object.assign(task, { state: 'waiting', due, attempts: task.attempts + Number(spent) });
    if (!(aside || task.rerun) || task.lane === null || task.aside) return;
    this.passed(task);
    task.aside = true;
    this.seen.aside++;
  }

  /** Somebody asked for it again. */
  again(task: ModelTask): void {
    const isOver = task.state !== 'waiting' && task.state !== 'running';
    Object.assign(task, { due: this.now, attempts: 0, crashes: 0, asked: true });
    if (isOver) Object.assign(task, { state: 'waiting', rerun: true });
  }

  givenBack({ handler, tasks }: Claim): void {
    for (const { event } of tasks) {
      const task = this.task(handler, event);
      if (task.state === 'running') task.state = 'waiting';
    }
  }

  /** The process that held this claim died. What came lower into the lane meanwhile is taken for running. */
  died({ handler, tasks }: Claim, weight: number): void {
    const own = tasks.map(({ event }) => this.task(handler, event));
    const top = Math.max(...own.map(({ cursor }) => cursor));
    const [first] = own;
    const near = first ? this.beside(first).filter(({ state, cursor }) => state === 'waiting' && cursor <= top) : [];
    for (const task of new Set([...own, ...near])) {
      if (!['running', 'waiting'].includes(task.state) || task.due > this.now || !this.isProved(task)) continue;
      task.state = 'running';
      task.crashes += weight;
      this.seen.suspects++;
      if (task.crashes < 12) task.state = 'waiting';
      else {
        this.seen.dead++;
        this.end(task, 'dead');
      }
    }
  }

  pruned(seq: number): void {
    const n = this.events.findIndex((one) => one.seq === seq);
    const [event] = this.events.splice(n, 1);
    this.check(event !== undefined && this.watermark < 0 ? true : (event?.cursor ?? -1) <= this.watermark, 'unproved');
    for (const position of this.positions.values()) this.check(position >= seq, 'pruned before it was taken up');
    for (const [key, { event: of, state }] of this.tasks) {
      if (of !== seq) continue;
      this.check(state !== 'waiting' && state !== 'running', 'a waiting task was pruned');
      this.tasks.delete(key);
    }
    this.floor = Math.max(this.floor, event?.cursor ?? -1);
    this.seen.pruned++;
  }
}
