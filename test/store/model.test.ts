// Random lives of the store, against the model. RUNS and SEED make it longer, and repeat it.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { openWorld } from './fixture.ts';
import { DEFS, Play, type Command } from './play.ts';

const weighted = <Value>(weight: number, arbitrary: fc.Arbitrary<Value>) => ({ weight, arbitrary });
const kind = <const Name extends string>(...names: Name[]) => fc.constantFrom(...names);
const which = fc.nat(30);
const slot = fc.nat(1);
const handler = fc.nat(3);

// Numbers of ids and cursors mostly agree, so that most arrivals are copies and some contradict each other.
const item = fc
  .record({
    cursor: fc.option(fc.integer({ min: 1, max: 40 }), { freq: 10 }),
    other: fc.option(fc.integer({ min: 1, max: 40 }), { freq: 1 }),
    isOther: fc.integer({ min: 0, max: 11 }),
    type: fc.constantFrom('A', 'A', 'A', 'B', 'C'),
    session: fc.option(fc.integer({ min: 0, max: 1 }), { freq: 8 }),
    origin: fc.constantFrom('webhook' as const, 'webhook' as const, 'replay' as const),
  })
  .map(({ cursor, other, isOther, type, session, origin }) => {
    const id = cursor === null || isOther === 0 ? other : cursor;
    const isPlain = isOther > 1 && cursor !== null;
    return {
      cursor,
      id,
      origin,
      type: isPlain ? 'AAB'.charAt(cursor % 3) : type,
      session: isPlain ? cursor % 2 : session,
    };
  });
const anyCommand: fc.Arbitrary<Command> = fc.oneof(
  weighted(
    8,
    fc.record({
      do: kind('arrive'),
      items: fc.array(item, { minLength: 1, maxLength: 6 }),
      proves: fc.constantFrom(null, null, null, 5, 10, 20, 30, 40),
    }),
  ),
  weighted(5, fc.record({ do: kind('tick'), ms: fc.constantFrom(1, 30, 100, 400, 2_000) })),
  weighted(2, fc.record({ do: kind('look') })),
  weighted(11, fc.record({ do: kind('turn'), tasks: fc.constantFrom(1, 3, 100), chain: fc.constantFrom(1, 2, 8) })),
  weighted(6, fc.record({ do: kind('suspects'), slot, dies: fc.boolean() })),
  weighted(
    9,
    fc.record({
      do: kind('end'),
      which,
      n: fc.integer({ min: 1, max: 8 }),
      as: kind('done', 'done', 'skipped', 'dead', 'again', 'later', 'aside', 'aside', 'back'),
      wait: fc.constantFrom(0, 50, 1_000),
    }),
  ),
  weighted(1, fc.record({ do: kind('complete', 'late'), which })),
  weighted(3, fc.record({ do: kind('die'), who: kind('run', 'kit', 'slot', 'slot'), slot })),
  weighted(3, fc.record({ do: kind('endAll') })),
  weighted(1, fc.record({ do: kind('stop') })),
  weighted(
    1,
    fc.record({
      do: kind('load'),
      present: fc.constantFrom(15, 15, 15, 14, 13, 11, 7, 0),
      broken: fc.constantFrom(0, 0, 0, 1, 4),
    }),
  ),
  weighted(1, fc.record({ do: kind('pause'), handler, on: fc.boolean() })),
  weighted(1, fc.record({ do: kind('retry', 'discard'), which })),
  weighted(
    1,
    fc.record({ do: kind('rerun'), handler, only: kind('all', 'dead'), from: fc.constantFrom(null, null, 5, 20) }),
  ),
  weighted(3, fc.record({ do: kind('prune'), ageMs: fc.constantFrom(0, 0, 500) })),
);

test(
  'random arrivals, ends, deaths, pauses, files, reruns, watermarks and prunes',
  { timeout: 1_000_000 },
  async () => {
    const seen: Record<string, number> = {};
    const world = await openWorld(DEFS);
    const property = fc.asyncProperty(
      fc.array(anyCommand, { minLength: 20, maxLength: 80, size: 'max' }),
      async (commands) => {
        const play = new Play(world);
        await play.begin();
        for (const command of commands) await play.step(command);
        await play.finish();
        for (const [name, n] of Object.entries(play.model.seen)) seen[name] = (seen[name] ?? 0) + n;
      },
    );
    const { RUNS = '150', SEED } = process.env;
    await fc.assert(property, { numRuns: Number(RUNS), ...(SEED && { seed: Number(SEED) }) });
    expect(Object.entries(seen).filter(([, n]) => n === 0)).toEqual([]);
  },
);
