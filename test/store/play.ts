// Does what a command says to the store and to the model, and compares them.
import { prune } from '../../src/keep/prune.ts';
import { discard, retry } from '../../src/operations/store/tasks.ts';
import { expect } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import type { Claim, Ended, Look, Outcome, Role } from '../../src/store/work.ts';
import { reading, type AnyWorld, type HandlerDef, type TurnOptions } from './fixture.ts';
import { Model, type ModelEvent, type ModelTask } from './model.ts';

const bySession: HandlerDef['lane'] = ({ session }) => String(session);
export const DEFS: HandlerDef[] = [
  { name: 'window', order: 'window', on: ['A', 'B'], lane: bySession },
  { name: 'own', order: 'arrival', lane: () => null },
  { name: 'strict', order: 'strict', on: ['A'], lane: bySession },
  { name: 'arrival', order: 'arrival', lane: bySession },
];
const ALL = DEFS.map((_, n) => n + 1);
const SLOTS: Role[] = ['suspect-1', 'suspect-2'];

export interface Item {
  cursor: number | null;
  id: number | null;
  type: string;
  session: number | null;
  origin: 'webhook' | 'replay';
}
export type Command =
  | { do: 'arrive'; items: Item[]; proves: number | null }
  | { do: 'tick'; ms: number }
  | { do: 'look' }
  | { do: 'turn'; tasks: number; chain: number }
  | { do: 'suspects'; slot: number; dies: boolean }
  | {
      do: 'end';
      which: number;
      n: number;
      as: 'done' | 'skipped' | 'dead' | 'again' | 'later' | 'aside' | 'back';
      wait: number;
    }
  | { do: 'complete'; which: number }
  | { do: 'die'; who: 'run' | 'kit' | 'slot'; slot: number }
  | { do: 'stop' }
  | { do: 'late'; which: number }
  | { do: 'endAll' }
  | { do: 'load'; present: number; broken: number }
  | { do: 'pause'; handler: number; on: boolean }
  | { do: 'retry' | 'discard'; which: number }
  | { do: 'rerun'; handler: number; only: 'all' | 'dead'; from: number | null }
  | { do: 'prune'; ageMs: number };

type Of<Name> = Command & { do: Name };

interface Running {
  claim: Claim;
  /** Of the slots; null: the live process. */
  slot: number | null;
  ended: number;
}

export class Play {
  readonly model = new Model();
  readonly world: AnyWorld;
  readonly slots = SLOTS.map(() => 0);
  running: Running[] = [];
  old: Claim[] = [];
  /** What an earlier look saw, and the events as they were then. */
  looked: { seen: Look; events: ModelEvent[] } | undefined;

  constructor(world: AnyWorld) {
    this.world = world;
  }

  async begin(): Promise<void> {
    await this.world.clear();
    await this.world.begin();
    for (const [n, def] of DEFS.entries()) this.model.defs.set(n + 1, def);
    this.model.loaded = new Set(ALL);
    for (const slot of this.slots.keys()) await this.beginSlot(slot);
  }

  async beginSlot(slot: number): Promise<void> {
    ({ boot: this.slots[slot] = 0 } = await this.world.store.work.begin(SLOTS[slot] ?? 'suspect-1', true));
  }

  async step(command: Command): Promise<void> {
    this.model.now = this.world.now;
    const act = this[command.do] as (command: Command) => unknown;
    await act.call(this, command);
    await this.compare();
  }

  tick({ ms }: Of<'tick'>): void {
    this.world.now += ms;
  }

  pause({ handler, on }: Of<'pause'>): Promise<unknown> {
    this.model.paused[on ? 'add' : 'delete'](handler + 1);
    return this.world.pause(DEFS[handler]?.name ?? '', on);
  }

  async arrive({ items, proves }: Of<'arrive'>): Promise<void> {
    const { model, world } = this;
    const told = items.filter(({ cursor, id, origin }) => (origin === 'replay' ? cursor !== null : id !== null));
    const given = told.map(({ id, session, ...one }) => ({
      ...one,
      id: one.origin === 'replay' ? null : `i${id}`,
      session: session === null ? null : `s${session}`,
    }));
    const from = model.watermark < 0 ? null : (String(model.watermark) as Cursor);
    const page = proves === null ? {} : { proves: { from, to: String(proves) as Cursor } };
    const before = model.events.length;
    const last = await world.number('select coalesce(max(seq), 0) from events');
    const verdicts = given.map((one) =>
      model.arrives({ ...one, seq: 0, at: model.now, isReplayed: one.origin === 'replay' }),
    );
    expect(await world.store.ingest.accept({ readings: given.map((one) => reading(one)), ...page })).toEqual(verdicts);
    const seqs = await this.seqs(last);
    for (const [n, event] of model.events.slice(before).entries()) event.seq = seqs[n] ?? 0;
    if (proves !== null && proves > model.watermark) model.proved.push({ to: proves, at: model.now });
  }

  async seqs(after = 0): Promise<number[]> {
    const rows = await this.world.all(`select seq from events where seq > ${after} order by seq`);
    return (rows as { seq: number }[]).map(({ seq }) => seq);
  }

  async look(): Promise<void> {
    const seen = await this.world.store.work.look([...this.world.ids.values()]);
    this.looked = { seen, events: this.model.events.map((event) => ({ ...event })) };
  }

  /** A turn of the live process. */
  async live(ended: Ended[], options: TurnOptions = {}): Promise<{ claims: Claim[]; more: boolean }> {
    const { looked, model, world } = this;
    this.looked = undefined;
    const { tasks = 0, chain = 1 } = options;
    const { claims, more, fenced } = await world.turn(ended, { tasks, chain, seen: looked?.seen });
    model.check(fenced === 0, 'an outcome was fenced');
    const rows = (await world.all('select id, position from handlers')) as { id: number; position: number }[];
    for (const { id, position } of rows) if (model.loaded.has(id)) model.fannedOut(id, position, looked?.events);
    for (const claim of claims) {
      model.claimed(claim, { suspects: false, chain });
      this.running.push({ claim, slot: null, ended: 0 });
    }
    return { claims, more };
  }

  async turn({ tasks, chain }: Of<'turn'>): Promise<void> {
    const isFresh = this.looked === undefined;
    const { more } = await this.live([], { tasks, chain });
    if (tasks === 100 && isFresh && !more) this.model.noneLeft(false);
  }

  async suspects({ slot, dies }: Of<'suspects'>): Promise<void> {
    const { model, world } = this;
    if (this.running.some((one) => one.slot === slot)) return;
    const { claims } = await world.turn([], { suspects: true, boot: this.slots[slot] ?? 0, tasks: 1 });
    model.check(claims.length <= 1, 'two suspects beside each other');
    for (const claim of claims) {
      model.claimed(claim, { suspects: true, chain: 1 });
      this.running.push({ claim, slot, ended: 0 });
    }
    if (claims.length === 0) model.noneLeft(true);
    else if (dies) await this.die({ do: 'die', who: 'slot', slot });
  }

  /** Tells the store how attempts ended: of the live process in one turn, of each slot in its own. */
  async settle(...list: [Running, Ended][]): Promise<void> {
    for (const [, { claim, free }] of list) {
      if (!free) continue;
      this.model.givenBack(claim);
      this.running = this.running.filter((one) => one.claim !== claim);
      this.old.push(claim);
    }
    for (const slot of new Set(list.map(([one]) => one.slot))) {
      const ended = list.filter(([one]) => one.slot === slot).map(([, of]) => of);
      if (slot === null) await this.live(ended);
      else await this.world.turn(ended, { suspects: true, boot: this.slots[slot] ?? 0, tasks: 0 });
    }
  }

  async end({ which, n, as, wait }: Of<'end'>): Promise<void> {
    const one = this.running[which % Math.max(1, this.running.length)];
    if (one) await this.settle([one, this.ended(one, n, as, wait)]);
  }

  async endAll(): Promise<void> {
    await this.settle(...this.running.map((one): [Running, Ended] => [one, this.ended(one, 100, 'done', 0)]));
  }

  /** The next tasks of a claim end: the last one as it says, the others well. */
  ended(one: Running, n: number, as: Of<'end'>['as'], wait: number): Ended {
    const { model, world } = this;
    const { claim } = one;
    const part = as === 'back' ? [] : claim.tasks.slice(one.ended, one.ended + n);
    const outcomes = part.map(({ event }, index): Outcome => {
      const task = model.task(claim.handler, event);
      const how = index === part.length - 1 && as !== 'back' ? as : 'done';
      if (how === 'done' || how === 'skipped' || how === 'dead') {
        model.end(task, how);
        return { event, as: how, error: null };
      }
      const last = { dueAt: world.now + wait, aside: how === 'aside', spent: how !== 'later' };
      model.failed(task, last.dueAt, last);
      return { event, as: 'again', error: 'no', ...last };
    });
    one.ended += part.length;
    const free = one.ended >= claim.tasks.length || !['done', 'skipped', 'dead'].includes(as);
    return { claim, outcomes, free };
  }

  async complete({ which }: Of<'complete'>): Promise<void> {
    const one = this.running[which % Math.max(1, this.running.length)];
    const event = one?.claim.tasks[one.ended]?.event;
    if (!one || event === undefined) return;
    const { claim } = one;
    const task = { event, handler: claim.handler };
    const { work } = this.world.store;
    expect(await work.complete({ ...claim, claim: -1 }, task, () => {})).toBe(false);
    expect(await work.complete(claim, task, () => {})).toBe(true);
    this.model.end(this.model.task(claim.handler, event), 'done');
    one.ended++;
    const completed: Outcome = { event, as: 'completed', error: null };
    await this.settle([one, { claim, outcomes: [completed], free: one.ended >= claim.tasks.length }]);
  }

  async die({ who, slot }: Of<'die'>): Promise<void> {
    const dead = this.running.filter((one) => who === 'kit' || one.slot === (who === 'run' ? null : slot));
    this.running = this.running.filter((one) => !dead.includes(one));
    for (const { claim } of dead) this.model.died(claim, who === 'kit' ? 1 : 4);
    this.old.push(...dead.map(({ claim }) => claim));
    const { work } = this.world.store;
    if (who === 'slot') await this.beginSlot(slot);
    else ({ boot: this.world.boot } = await work.begin('live', who === 'run'));
    if (who === 'kit') for (const other of this.slots.keys()) await this.beginSlot(other);
  }

  /** The live process ends by itself, with claims that its drain did not reach. */
  async stop(): Promise<void> {
    const left = this.running.filter(({ slot }) => slot === null);
    this.running = this.running.filter(({ slot }) => slot !== null);
    for (const { claim } of left) this.model.givenBack(claim);
    this.old.push(...left.map(({ claim }) => claim));
    const { work } = this.world.store;
    await work.end(this.world.boot);
    ({ boot: this.world.boot } = await work.begin('live', true));
  }

  /** An outcome of a claim that is over. */
  async late({ which }: Of<'late'>): Promise<void> {
    const claim = this.old[which % Math.max(1, this.old.length)];
    if (!claim) return;
    const outcomes = claim.tasks.map(({ event }): Outcome => ({ event, as: 'done', error: null }));
    const options = { suspects: true, boot: this.slots[0] ?? 0, tasks: 0 };
    const { fenced } = await this.world.turn([{ claim, outcomes, free: true }], options);
    this.model.check(fenced === outcomes.length, 'an outcome of an old claim counted');
  }

  /** `run` is started anew to load other files. */
  async load({ present, broken }: Of<'load'>): Promise<void> {
    const isIn = (mask: number) => (_: HandlerDef, n: number) => (mask & (1 << n)) > 0;
    await this.stop();
    this.looked = undefined;
    await this.world.load(DEFS.filter(isIn(present)), DEFS.filter(isIn(broken)));
    this.model.loaded = new Set(ALL.filter((id) => (present & ~broken & (1 << (id - 1))) > 0));
    for (const one of this.running.filter(({ claim }) => !this.model.loaded.has(claim.handler)))
      await this.settle([one, { claim: one.claim, outcomes: [], free: true }]);
  }

  pick(which: number): ModelTask | undefined {
    const all = [...this.model.tasks.values()].filter(({ state }) => state !== 'running');
    return all[which % Math.max(1, all.length)];
  }

  async retry({ which }: Of<'retry'>): Promise<void> {
    const task = this.pick(which);
    if (!task) return;
    const isOne = await retry(this.world.people, DEFS[task.handler - 1]?.name ?? '', task.event);
    expect(isOne).toBe(task.state !== 'done');
    if (isOne) this.model.again(task);
  }

  async discard({ which }: Of<'discard'>): Promise<void> {
    const task = this.pick(which);
    if (!task) return;
    const filter = { handler: DEFS[task.handler - 1]?.name ?? '', event: String(task.event), limit: 1 };
    expect(await discard(this.world.people, { ...filter, limit: 0 })).toBe(task.state === 'waiting' ? 1 : 0);
    if (task.state === 'waiting') task.state = 'skipped';
  }

  async rerun({ handler: n, only, from }: Of<'rerun'>): Promise<void> {
    const { model, world } = this;
    const handler = n + 1;
    if (!model.loaded.has(handler)) return;
    await world.rerun(DEFS[n]?.name ?? '', only, from === null ? null : (String(from) as Cursor));
    for (const event of model.events) {
      if (
        event.seq > (model.positions.get(handler) ?? 0) ||
        !model.wants(handler, event) ||
        (from !== null && (event.cursor ?? -1) < from)
      )
        continue;
      const task = model.tasks.get(`${handler}/${event.seq}`);
      if (!task && only === 'all') model.add(handler, event, model.now, true);
      if (!task || !(task.state === 'dead' || (only === 'all' && ['done', 'skipped'].includes(task.state)))) continue;
      model.again(task);
      Object.assign(task, { aside: false, lane: model.laneOf(handler, event), cursor: event.cursor ?? -1 });
      model.seen.reruns++;
    }
  }

  async prune({ ageMs }: Of<'prune'>): Promise<void> {
    // The model would forget what a claim still names.
    if (this.running.some(({ ended }) => ended > 0)) return;
    const before = await this.seqs();
    await prune(this.world.people, this.world.now - ageMs);
    const after = new Set(await this.seqs());
    for (const seq of before) if (!after.has(seq)) this.model.pruned(seq);
  }

  /** Counters, positions of lanes, and nothing that is without its row. */
  async compare(): Promise<void> {
    const { model, world } = this;
    const handlers = (await world.all('select id, waiting, done, skipped, dead from handlers')) as Record<
      string,
      number
    >[];
    const count = new Map<string, number>();
    for (const { handler, state } of model.tasks.values()) {
      const key = `${handler} ${state === 'running' ? 'waiting' : state}`;
      count.set(key, (count.get(key) ?? 0) + 1);
    }
    for (const { id, ...row } of handlers)
      for (const [state, n] of Object.entries(row))
        model.check(n === (count.get(`${id} ${state}`) ?? 0), `${state} of ${id}: ${n}`);
    model.check((await world.number('select count(*) from tasks')) === model.tasks.size, 'tasks');
    model.check((await world.number(WRONG_LANES)) === 0, 'a lane is not due when its head is');
    model.check(
      (await world.number('select count(*) from lanes where boot is not null')) === this.running.length,
      'claims',
    );
  }

  /** Without a further fault, everything ends. */
  async finish(): Promise<void> {
    const { model, world } = this;
    await this.step({ do: 'load', present: 15, broken: 0 });
    for (const handler of DEFS.keys()) await this.step({ do: 'pause', handler, on: false });
    await this.step({ do: 'arrive', items: [], proves: 1_000 });
    const isOpen = ({ state }: ModelTask): boolean => state === 'waiting' || state === 'running';
    for (let round = 0; round < 200; round++) {
      world.now += 1_000;
      await this.step({ do: 'turn', tasks: 100, chain: 8 });
      do {
        await this.step({ do: 'endAll' });
        for (const slot of this.slots.keys()) await this.step({ do: 'suspects', slot, dies: false });
      } while (this.running.length > 0);
      if (![...model.tasks.values()].some(isOpen)) break;
    }
    const stuck = [...model.tasks.values()].filter(isOpen).map(({ event, handler }) => `${event} of ${handler}`);
    model.check(stuck.length === 0, `stuck: ${stuck.join()}`);
    const wanted = ALL.flatMap((id) => model.events.filter((event) => model.wants(id, event)));
    model.check(model.tasks.size === wanted.length, 'an event has no task');
    model.check(
      (await world.number('select count(*) from lanes where coalesce(due_at, boot) is not null or id < 0')) === 0,
      'lanes',
    );
  }
}

/** Against the one rule of `touch`. */
export const WRONG_LANES = `select (select count(*) from lanes l where case when boot is null
    then due_at is distinct from (select due_at from tasks where lane = l.id and state = 0 order by cursor limit 1)
      or (id < 0 and due_at is null) or (due_at is not null and suspect is distinct from
        (select cast(crashes > 0 as int) from tasks where lane = l.id and state = 0 order by cursor limit 1))
    else due_at is not null end)
  + (select count(*) from tasks t where state = 0 and not exists (select 1 from lanes where id = t.lane))`;
