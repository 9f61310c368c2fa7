// A plainly right model of lanes, deaths and positions. It is told what the store did, and says what is wrong with that.
import type { Claim } from '../../src/store/work.ts';
import { WINDOW, type HandlerDef } from './fixture.ts';

export interface ModelEvent {
  seq: number;
  cursor: number | null;
  session: string | null;
  at: number;
}

interface ModelTask {
  handler: number;
  event: ModelEvent;
  /** Null: a lane of its own. */
  lane: string | null;
  due: number;
  state: 'waiting' | 'running' | 'done' | 'skipped' | 'dead';
  attempts: number;
  crashes: number;
  aside: boolean;
  ended: number;
}

export class Model {
  now = 0;
  watermark = -1;
  floor = -1;
  readonly events: ModelEvent[] = [];
  readonly tasks = new Map<string, ModelTask>();
  readonly done = new Map<string, number>();
  readonly positions = new Map<number, number>();
  readonly defs = new Map<number, HandlerDef>();
  readonly paused = new Set<number>();
  loaded = new Set<number>();
  readonly seen = { claims: 0, late: 0, aside: 0, suspects: 0, dead: 0, fenced: 0 };

  check(holds: boolean, words: string): void {
    if (!holds) throw new Error(words);
  }

  laneOf(def: HandlerDef, event: ModelEvent): string | null {
    return event.cursor === null || def.name === 'own' ? null : String(event.session);
  }

  /** A handler's position moved: what it passed became tasks. */
  fannedOut(handler: number, to: number): void {
    const from = this.positions.get(handler) ?? 0;
    this.check(to >= from, 'a position went back');
    const def = this.defs.get(handler);
    for (const event of this.events) {
      if (!def || event.seq <= from || event.seq > to) continue;
      const waits = event.cursor !== null && def.order === 'window' ? WINDOW : 0;
      const task = { handler, event, lane: this.laneOf(def, event), due: event.at + waits, attempts: 0, crashes: 0 };
      this.tasks.set(`${handler}/${event.seq}`, { ...task, state: 'waiting', aside: false, ended: 0 });
    }
    this.positions.set(handler, to);
  }

  claimed(claim: Claim, suspects: boolean): void {
    this.check(
      this.loaded.has(claim.handler) && !this.paused.has(claim.handler),
      'claimed for a paused or missing handler',
    );
    this.check(!suspects || claim.tasks.length === 1, 'a suspect beside another');
    const own = claim.tasks.map(({ event }) => this.task(claim.handler, event));
    for (const [n, task] of own.entries()) {
      const got = claim.tasks[n];
      const name = `task ${task.event.seq} of ${task.handler}`;
      this.seen.claims++;
      this.check(task.state === 'waiting', `${name} was claimed while ${task.state}`);
      this.check(task.due <= this.now, `${name} was claimed early`);
      this.check(
        suspects === task.crashes > 0,
        `${name} with ${task.crashes} crashes was claimed by the wrong process`,
      );
      this.check(got?.attempts === task.attempts && got.crashes === task.crashes, `${name} has other counts`);
      const late = task.aside || this.isLate(task);
      this.check(got?.late === late || (task.event.cursor ?? 0) <= this.floor, `${name} late: ${String(got?.late)}`);
      if (late) this.seen.late++;
      this.checkOrder(task, own.slice(0, n), name);
    }
    for (const task of own) task.state = 'running';
  }

  checkOrder(task: ModelTask, before: ModelTask[], name: string): void {
    const def = this.defs.get(task.handler);
    const cursor = task.event.cursor ?? -1;
    if (def?.order === 'strict' && task.event.cursor !== null)
      this.check(cursor <= this.watermark || task.attempts + task.crashes > 0, `${name} is not proved`);
    if (task.lane === null || task.aside) return;
    for (const other of this.tasks.values()) {
      if (other === task || other.handler !== task.handler || other.lane !== task.lane || other.aside) continue;
      this.check(other.state !== 'running' || before.includes(other), `${name} beside ${other.event.seq} of its lane`);
      const isLower = (other.event.cursor ?? -1) < cursor;
      this.check(
        !isLower || other.state !== 'waiting' || before.includes(other),
        `${name} before ${other.event.seq}, which is lower`,
      );
    }
    const position = this.positions.get(task.handler) ?? 0;
    for (const event of this.events) {
      if (!def || event.seq <= position || this.laneOf(def, event) !== task.lane || event.cursor === null) continue;
      this.check(
        event.cursor > cursor || event.at >= task.due,
        `${name} before event ${event.seq}, which is lower and no task yet`,
      );
    }
  }

  isLate(task: ModelTask): boolean {
    const highest = task.lane === null ? undefined : this.done.get(`${task.handler}/${task.lane}`);
    return task.event.cursor !== null && highest !== undefined && task.event.cursor < highest;
  }

  task(handler: number, event: number): ModelTask {
    const task = this.tasks.get(`${handler}/${event}`);
    if (!task) throw new Error(`task ${event} of ${handler} does not exist`);
    return task;
  }

  end(handler: number, event: number, as: 'done' | 'skipped' | 'dead'): void {
    const task = this.task(handler, event);
    task.state = as;
    task.ended++;
    this.check(task.ended === 1, `task ${event} of ${handler} ended twice`);
    this.passed(task);
  }

  passed(task: ModelTask): void {
    if (task.lane === null || task.aside || task.event.cursor === null) return;
    const key = `${task.handler}/${task.lane}`;
    this.done.set(key, Math.max(task.event.cursor, this.done.get(key) ?? -1));
  }

  failed(handler: number, event: number, due: number, aside: boolean): void {
    const task = this.task(handler, event);
    Object.assign(task, { state: 'waiting', due, attempts: task.attempts + 1 });
    if (!aside || task.lane === null || task.aside) return;
    this.passed(task);
    task.aside = true;
    this.seen.aside++;
  }

  givenBack(claim: Claim): void {
    for (const { event } of claim.tasks) {
      const task = this.task(claim.handler, event);
      if (task.state === 'running') task.state = 'waiting';
    }
  }

  /** The process that held this claim died. */
  died(claim: Claim, weight: number): void {
    const own = claim.tasks.map(({ event }) => this.task(claim.handler, event));
    const top = Math.max(...own.map(({ event }) => event.cursor ?? -1));
    const [first] = own;
    for (const task of this.tasks.values()) {
      const isNear =
        first?.lane !== null &&
        task.lane === first?.lane &&
        !task.aside &&
        !first?.aside &&
        (task.event.cursor ?? -1) <= top;
      const ran = own.includes(task) || (task.handler === claim.handler && task.state === 'waiting' && isNear);
      const isProved = this.defs.get(task.handler)?.order !== 'strict' || (task.event.cursor ?? -1) <= this.watermark;
      if (!ran || !['running', 'waiting'].includes(task.state) || task.due > this.now || !isProved) continue;
      task.state = 'waiting';
      task.crashes += weight;
      this.seen.suspects++;
      if (task.crashes < 12) continue;
      this.seen.dead++;
      this.end(task.handler, task.event.seq, 'dead');
    }
  }
}
