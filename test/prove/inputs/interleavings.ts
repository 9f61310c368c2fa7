// The same few events arrive by webhook, replay and stream, in any order and number of copies, some with another
// event's id, cursor or data. Meanwhile `run` handles events, fails and dies, and a dead `run` tries to settle. Each
// event must have one row, each task one completion, and lanes must keep their order.
import * as fc from 'fast-check';
import type { Row } from '../report.ts';
import { check, told, type Asked } from './check.ts';
import { openKit, type OpenKit, type Sent } from './kit.ts';
import { createMachine, PLENTY, type Machine } from './machine.ts';

/** Values that sort differently as text, as floating-point numbers and as integers. */
const CURSORS = ['9', '10', '9007199254740992', '9007199254740993', '9223372036854775806', '9223372036854775807'];
const NEWEST = '9223372036854775807';
const LANES = ['a', 'a', 'b', 'b', 'b', 'a'];
const index = fc.nat(CURSORS.length - 1);

type Disguise = { id: number } | { cursor: number | null } | { data: number };
const disguise: fc.Arbitrary<Disguise | null> = fc.option(
  fc.oneof(
    fc.record({ id: index }),
    fc.record({ cursor: fc.option(index) }),
    fc.record({ data: fc.integer({ min: 1, max: 2 }) }),
  ),
  // With 1, there would be no event with the id, cursor or data of another one.
  { freq: 2 },
);
const sent: fc.Arbitrary<Sent> = fc
  .record({
    event: index,
    origin: fc.constantFrom('webhook' as const, 'replay' as const, 'stream' as const),
    as: disguise,
  })
  .map(({ event, origin, as }) => {
    const id = as && 'id' in as ? as.id : event;
    const cursor = as && 'cursor' in as ? as.cursor : event;
    const data = `${event}${as && 'data' in as ? `/${as.data}` : ''}`;
    const session = LANES[event] ?? '';
    if (origin !== 'webhook') return { origin, id: null, cursor: CURSORS[cursor ?? event] ?? null, data, session };
    return { origin, id: `id-${id}`, cursor: cursor === null ? null : (CURSORS[cursor] ?? null), data, session };
  });

/** One commit in four raises the watermark. If more commits raised it, too few tasks would have to wait for it. */
const proof = fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: index });

interface Step {
  take: (machine: Machine) => unknown;
}
const stepOf = (words: string, take: Step['take']): Step => told(words, { take });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ arrivals: fc.array(sent, { minLength: 1, maxLength: 3 }), proves: proof })
      .map(({ arrivals, proves }) => {
        const watermark = proves === null ? null : (CURSORS[proves] ?? null);
        return stepOf(`commit ${JSON.stringify(arrivals)}, proved up to ${watermark}`, (machine) =>
          machine.commit(arrivals, watermark),
        );
      }),
  },
  {
    weight: 4,
    arbitrary: fc
      .record({
        ends: fc.nat(3),
        how: fc.constantFrom('done', 'completed', 'failed'),
        reads: fc.integer({ min: 1, max: 8 }),
        room: fc.constantFrom(0, 1, 2, 3, PLENTY),
      })
      .map((turned) => stepOf(`turn ${JSON.stringify(turned)}`, (machine) => machine.turn(turned))),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(1, 100, 249, 250, 1_000, 120_000)
      .map((ms) => stepOf(`${ms} ms pass`, (machine) => machine.tick(ms))),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      stepOf('run dies', (machine) => machine.die('run')),
      stepOf('isolation dies', (machine) => machine.die('isolation')),
      stepOf('alone', (machine) => machine.alone()),
      stepOf('a dead process comes back', (machine) => machine.settleDead()),
    ),
  },
);

export function interleavings(asked: Asked, open: OpenKit = openKit): Promise<Row> {
  return check('any interleaving of webhook, replay and stream: one row, one completion, lane order', asked, (onCase) =>
    fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
      onCase();
      const machine = await createMachine(open);
      try {
        for (const { take } of steps) await take(machine);
        await machine.finish(NEWEST);
      } finally {
        machine.close();
      }
    }),
  );
}
