// Random lives of the store, against the model. RUNS and SEED make it longer, and repeat it.
import * as fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Claim } from '../../src/store/work.ts';
import { failed, reading, World, type HandlerDef } from './fixture.ts';
import { Model } from './model.ts';

const DEFS: HandlerDef[] = [
  { name: 'window', order: 'window', lane: ({ session }) => String(session) },
  { name: 'own', order: 'arrival', lane: () => null },
  { name: 'strict', order: 'strict', lane: ({ session }) => String(session) },
];

type Command =
  | { do: 'arrive'; items: { cursor: number | null; session: number; origin: 'webhook' | 'replay' }[] }
  | { do: 'tick'; ms: number }
  | { do: 'turn'; tasks: number; chain: number }
  | { do: 'suspects' }
  | { do: 'end'; which: number; n: number; as: 'done' | 'skipped' | 'dead' | 'again' | 'aside' | 'back'; wait: number }
  | { do: 'complete'; which: number }
  | { do: 'die'; who: 'run' | 'kit' | 'slot' }
  | { do: 'load'; mask: number }
  | { do: 'pause'; handler: number; on: boolean }
  | { do: 'watermark'; to: number }
  | { do: 'prune' };

const item = fc.record({
  cursor: fc.option(fc.integer({ min: 1, max: 40 }), { freq: 10 }),
  session: fc.integer({ min: 0, max: 1 }),
  origin: fc.constantFrom('webhook' as const, 'webhook' as const, 'replay' as const),
});
const weighted = <Value>(weight: number, arbitrary: fc.Arbitrary<Value>) => ({ weight, arbitrary });
const kind = <const Name extends string>(name: Name) => fc.constant(name);
const anyCommand: fc.Arbitrary<Command> = fc.oneof(
  weighted(8, fc.record({ do: kind('arrive'), items: fc.array(item, { minLength: 1, maxLength: 6 }) })),
  weighted(5, fc.record({ do: kind('tick'), ms: fc.constantFrom(1, 30, 100, 400, 2_000) })),
  weighted(10, fc.record({ do: kind('turn'), tasks: fc.constantFrom(1, 3, 100), chain: fc.constantFrom(1, 2, 8) })),
  weighted(4, fc.record({ do: kind('suspects') })),
  weighted(
    9,
    fc.record({
      do: kind('end'),
      which: fc.nat(20),
      n: fc.integer({ min: 1, max: 8 }),
      as: fc.constantFrom('done', 'done', 'skipped', 'dead', 'again', 'again', 'aside', 'back'),
      wait: fc.constantFrom(0, 50, 1_000),
    }),
  ),
  weighted(2, fc.record({ do: kind('complete'), which: fc.nat(20) })),
  weighted(2, fc.record({ do: kind('die'), who: fc.constantFrom('run', 'kit', 'slot') })),
  weighted(1, fc.record({ do: kind('load'), mask: fc.integer({ min: 0, max: 7 }) })),
  weighted(1, fc.record({ do: kind('pause'), handler: fc.nat(2), on: fc.boolean() })),
  weighted(2, fc.record({ do: kind('watermark'), to: fc.integer({ min: 1, max: 40 }) })),
  weighted(1, fc.record({ do: kind('prune') })),
);

class Play {
  readonly model = new Model();
  readonly world: World;
  slot = 0;
  /** What runs, by whom, and how many of its tasks have ended. */
  running: { claim: Claim; live: boolean; ended: number }[] = [];

  constructor(file: string) {
    this.world = new World(file, DEFS);
  }

  async begin(): Promise<void> {
    await this.world.begin();
    for (const [n, def] of DEFS.entries()) this.model.defs.set(n + 1, def);
    this.model.loaded = new Set([1, 2, 3]);
    ({ boot: this.slot } = await this.world.store.work.begin('suspect-1', true));
  }

  async step(command: Command): Promise<void> {
    const { model, world } = this;
    model.now = world.now;
    if (command.do === 'arrive') await this.arrive(command.items);
    else if (command.do === 'tick') world.now += command.ms;
    else if (command.do === 'turn') await this.turn(command);
    else if (command.do === 'suspects') await this.suspects();
    else if (command.do === 'end') await this.end(command);
    else if (command.do === 'complete') await this.complete(command.which);
    else if (command.do === 'die') await this.die(command.who);
    else if (command.do === 'load') await this.load(command.mask);
    else if (command.do === 'pause') {
      await world.people.admin.pause(DEFS[command.handler]?.name ?? '', command.on);
      model.paused[command.on ? 'add' : 'delete'](command.handler + 1);
    } else if (command.do === 'watermark') {
      model.watermark = Math.max(model.watermark, command.to);
      world.store.db.raw
        .prepare(
          "insert into state values ('watermark', cast(? as integer)) on conflict do update set value = excluded.value",
        )
        .run(model.watermark);
    } else await this.prune();
    this.counters();
  }

  async arrive(items: (Command & { do: 'arrive' })['items']): Promise<void> {
    const before = this.world.count('select coalesce(max(seq), 0) from events');
    const list = items.map(({ session, ...rest }) => ({
      ...rest,
      session: `s${session}`,
      id: `e${rest.cursor ?? Math.random()}`,
    }));
    await this.world.accept(
      ...list.filter(({ cursor, origin }) => cursor !== null || origin === 'webhook').map((one) => reading(one)),
    );
    const rows = this.world.rows(
      `select seq, cursor, session, received_at as at from events where seq > ${before} order by seq`,
    );
    for (const row of rows) this.model.events.push(row as (typeof this.model.events)[number]);
  }

  async turn({ tasks, chain }: { tasks: number; chain: number }): Promise<void> {
    const { claims, more } = await this.world.turn([], { tasks, chain });
    for (const { id, position } of this.positions()) if (this.model.loaded.has(id)) this.model.fannedOut(id, position);
    for (const claim of claims) {
      this.model.claimed(claim, false);
      this.running.push({ claim, live: true, ended: 0 });
    }
    if (tasks === 100 && !more) this.noneLeft();
  }

  /** With room for all, nothing that is due is left. */
  noneLeft(): void {
    const { model } = this;
    const all = [...model.tasks.values()];
    for (const task of all) {
      const { handler, event, lane, aside } = task;
      if (
        task.state !== 'waiting' ||
        task.crashes > 0 ||
        task.due > model.now ||
        !model.loaded.has(handler) ||
        model.paused.has(handler)
      )
        continue;
      if (model.defs.get(handler)?.order === 'strict' && event.cursor !== null && event.cursor > model.watermark)
        continue;
      const blocks = (other: (typeof all)[number]): boolean =>
        other !== task &&
        other.handler === handler &&
        !aside &&
        lane !== null &&
        other.lane === lane &&
        !other.aside &&
        (other.state === 'running' || (other.state === 'waiting' && (other.event.cursor ?? -1) < (event.cursor ?? -1)));
      model.check(all.some(blocks), `task ${event.seq} of ${handler} is due, and was not claimed`);
    }
  }

  async suspects(): Promise<void> {
    if (this.running.some(({ live }) => !live)) return;
    const { claims } = await this.world.turn([], { suspects: true, boot: this.slot, tasks: 1 });
    for (const claim of claims) {
      this.model.claimed(claim, true);
      this.running.push({ claim, live: false, ended: 0 });
    }
  }

  async end({ which, n, as, wait }: Command & { do: 'end' }): Promise<void> {
    const { model, world } = this;
    const one = this.running[which % Math.max(1, this.running.length)];
    if (!one) return;
    const { claim, live } = one;
    const part = claim.tasks.slice(one.ended, one.ended + n);
    const boot = live ? world.boot : this.slot;
    const options = { tasks: 0, boot, suspects: !live };
    const last = part.at(-1)?.event ?? 0;
    const outcomes = (as === 'back' ? [] : part).map(({ event }) => {
      const how = event === last && as !== 'again' && as !== 'aside' && as !== 'back' ? as : 'done';
      return { event, as: how, error: null };
    });
    const isAgain = as === 'again' || as === 'aside';
    if (isAgain) outcomes.pop();
    for (const { event, as: how } of outcomes) model.end(claim.handler, event, how);
    const again = failed({ ...claim, tasks: part.slice(-1) }, world.now + wait, { aside: as === 'aside' }).outcomes;
    if (isAgain) model.failed(claim.handler, last, world.now + wait, as === 'aside');
    one.ended += as === 'back' ? 0 : part.length;
    const free = isAgain || as === 'back' || one.ended >= claim.tasks.length;
    if (free) {
      model.givenBack(claim);
      this.running = this.running.filter((other) => other !== one);
    }
    const { fenced } = await world.turn(
      [{ claim, outcomes: isAgain ? [...outcomes, ...again] : outcomes, free }],
      options,
    );
    model.check(fenced === 0, 'an outcome was fenced');
    for (const { id, position } of this.positions()) if (live && model.loaded.has(id)) model.fannedOut(id, position);
  }

  async complete(which: number): Promise<void> {
    const one = this.running[which % Math.max(1, this.running.length)];
    const task = one?.claim.tasks[one.ended];
    if (!one || !task) return;
    const { claim } = one;
    expect(
      await this.world.store.work.complete(
        { ...claim, claim: -1 },
        { event: task.event, handler: claim.handler },
        () => {},
      ),
    ).toBe(false);
    expect(await this.world.store.work.complete(claim, { event: task.event, handler: claim.handler }, () => {})).toBe(
      true,
    );
    this.model.end(claim.handler, task.event, 'done');
    one.ended++;
    if (one.ended < claim.tasks.length) return;
    this.running = this.running.filter((other) => other !== one);
    const options = { tasks: 0, boot: one.live ? this.world.boot : this.slot, suspects: !one.live };
    await this.world.turn([{ claim, outcomes: [], free: true }], options);
    for (const { id, position } of this.positions())
      if (one.live && this.model.loaded.has(id)) this.model.fannedOut(id, position);
  }

  async die(who: 'run' | 'kit' | 'slot'): Promise<void> {
    const dead = this.running.filter(({ live }) => who === 'kit' || live === (who === 'run'));
    this.running = this.running.filter((one) => !dead.includes(one));
    for (const { claim } of dead) this.model.died(claim, who === 'kit' ? 1 : 4);
    if (who === 'slot') ({ boot: this.slot } = await this.world.store.work.begin('suspect-1', true));
    else ({ boot: this.world.boot } = await this.world.store.work.begin('live', who === 'run'));
    if (who === 'kit') ({ boot: this.slot } = await this.world.store.work.begin('suspect-1', true));
    const held = this.world.count('select count(*) from lanes where boot is not null');
    this.model.check(held === this.running.length, 'a death left claims');
  }

  /** `run` is started anew to load other files, and gives everything back first. */
  async load(mask: number): Promise<void> {
    for (const { claim, live } of this.running) {
      this.model.givenBack(claim);
      await this.world.turn([{ claim, outcomes: [], free: true }], {
        tasks: 0,
        boot: live ? this.world.boot : this.slot,
        suspects: true,
      });
    }
    this.running = [];
    const present = DEFS.filter((_, n) => mask & (1 << n));
    await this.world.load(present);
    this.model.loaded = new Set(DEFS.flatMap((def, n) => (present.includes(def) ? [n + 1] : [])));
  }

  async prune(): Promise<void> {
    const before = this.world.rows('select seq from events').map((row) => (row as { seq: number }).seq);
    await this.world.people.admin.prune(this.world.now - 1_000);
    const after = new Set(this.world.rows('select seq from events').map((row) => (row as { seq: number }).seq));
    for (const seq of before.filter((one) => !after.has(one))) {
      const event = this.model.events.find((one) => one.seq === seq);
      this.model.events.splice(
        this.model.events.findIndex((one) => one.seq === seq),
        1,
      );
      for (const [key, task] of this.model.tasks)
        if (task.event.seq === seq) {
          this.model.check(task.ended === 1, 'a waiting task was pruned');
          this.model.tasks.delete(key);
        }
      this.model.floor = Math.max(this.model.floor, event?.cursor ?? -1);
    }
  }

  positions(): { id: number; position: number }[] {
    return this.world.rows('select id, position from handlers') as { id: number; position: number }[];
  }

  counters(): void {
    for (const row of this.world.rows('select id, waiting, done, skipped, dead from handlers') as ({
      id: number;
    } & Record<string, number>)[]) {
      const of = (...states: string[]): number =>
        [...this.model.tasks.values()].filter(({ handler, state }) => handler === row.id && states.includes(state))
          .length;
      const want = [of('waiting', 'running'), of('done'), of('skipped'), of('dead')];
      this.model.check(
        [row['waiting'], row['done'], row['skipped'], row['dead']].join() === want.join(),
        `counters of ${row.id}: ${JSON.stringify(row)}, not ${want.join()}`,
      );
    }
  }

  /** Without a further fault, everything ends. */
  async finish(): Promise<void> {
    await this.load(7);
    for (const n of [0, 1, 2]) await this.step({ do: 'pause', handler: n, on: false });
    await this.step({ do: 'watermark', to: 40 });
    for (let round = 0; round < 200; round++) {
      this.world.now += 500;
      this.model.now = this.world.now;
      while (this.running.length > 0) await this.step({ do: 'end', which: 0, n: 100, as: 'done', wait: 0 });
      await this.step({ do: 'turn', tasks: 100, chain: 8 });
      await this.step({ do: 'suspects' });
      if (this.running.length === 0 && [...this.model.tasks.values()].every(({ ended }) => ended === 1)) break;
    }
    const stuck = [...this.model.tasks.values()].filter(({ ended }) => ended !== 1);
    this.model.check(
      stuck.length === 0,
      `stuck: ${stuck.map(({ event, handler }) => `${event.seq}/${handler}`).join()}`,
    );
    const left = this.world.count('select count(*) from lanes where due_at is not null or boot is not null or id < 0');
    this.model.check(left === 0, `${left} lanes are due, claimed or own`);
  }
}

test('random arrivals, ends, deaths, pauses, files, watermarks and prunes', { timeout: 1_000_000 }, async () => {
  const seen: Record<string, number> = {};
  const property = fc.asyncProperty(
    fc.array(anyCommand, { minLength: 5, maxLength: 70, size: 'max' }),
    async (commands) => {
      const folder = mkdtempSync(join(tmpdir(), 'kit-model-'));
      const play = new Play(join(folder, 'events.db'));
      try {
        await play.begin();
        for (const step of commands) await play.step(step);
        await play.finish();
      } finally {
        play.world.close();
        rmSync(folder, { recursive: true, force: true });
      }
      for (const [name, n] of Object.entries(play.model.seen)) seen[name] = (seen[name] ?? 0) + n;
    },
  );
  const { RUNS = '80', SEED } = process.env;
  await fc.assert(property, { numRuns: Number(RUNS), ...(SEED && { seed: Number(SEED) }) });
  for (const name of ['claims', 'late', 'aside', 'suspects'])
    expect([name, (seen[name] ?? 0) > 0]).toEqual([name, true]);
});
