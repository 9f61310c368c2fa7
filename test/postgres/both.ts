// Feeds one kind of store with everything that the catalogue has, and notes what the store answers.
import * as fc from 'fast-check';
import { tasksOf } from '../../src/run/new-tasks.ts';
import type { Store } from '../../src/store/store.ts';
import type { Claim, Settlement } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readItem } from '../../src/wire/event.ts';
import { anyBody, unsigned } from '../prove/inputs/bodies.ts';
import { change, changed } from '../prove/inputs/changes.ts';
import { request } from '../prove/inputs/receiver.ts';
import { createWire } from '../prove/inputs/wire.ts';
import { bodyOf, message, openReceiver, T0, type Receiver } from '../receive/harness.ts';
import { bodies, naughty } from '../receive/inputs.ts';
import { handlerOf } from '../run/fixture.ts';
import type { Kind } from '../stores.ts';
import { batchesOf, noise } from './arrivals.ts';
import { readAll } from './readings.ts';
import { tablesOf, type Table } from './rows.ts';

const SEED = 20_260_101;
const CASES = { bytes: 1_200, changes: 300, batches: 800 };
const MB = 1024 * 1024;
/** For all tasks, because the kinds need not claim in the same order. */
const ROOM = 100_000;

export interface Fed {
  /** What was fed, and the answer. */
  answers: string[];
  tables: Map<string, Table>;
}

export async function feed(kind: Kind): Promise<Fed> {
  const receiver = await openReceiver({ kind, synchronous: 'NORMAL' });
  try {
    // What is older than the store is history, so both stores must be of the same age.
    receiver.query(
      kind.name === 'sqlite'
        ? `update state set value = ${T0} where name = 'born' returning 1 as one`
        : `update state set value = '${T0}' where name = 'born' returning 1 as one`,
    );
    const answers = [
      ...(await deliverAll(receiver)),
      ...(await acceptAll(receiver.store)),
      ...(await runAll(receiver.store)),
      ...(await readAll(receiver.store, T0 + 2_000_000_000)),
    ];
    await receiver.counters();
    return { answers, tables: tablesOf(receiver, kind) };
  } finally {
    await receiver.close();
  }
}

/** Deliveries as bytes over HTTP, one after another. */
async function deliverAll(receiver: Receiver): Promise<string[]> {
  const wire = createWire(receiver.port);
  const answers: string[] = [];
  async function send(name: string, bytes: Buffer, end = false): Promise<void> {
    const before = receiver.answered.length;
    const status = await wire.ask(bytes, end);
    const causes = receiver.answered.slice(before).map(({ cause }) => cause);
    answers.push(`${name}: ${status} ${causes.join()}`);
  }
  try {
    for (const [name, body] of catalogued()) {
      await send(name, request(body));
      await send(`${name}, again`, request(body));
    }
    const samples = fc.sample(fc.tuple(anyBody, unsigned), { seed: SEED, numRuns: CASES.bytes });
    for (const [n, [{ body }, headers]] of samples.entries()) await send(`any bytes ${n}`, request(body, headers));
    const changes = fc.sample(fc.tuple(anyBody, change), { seed: SEED, numRuns: CASES.changes });
    for (const [n, [{ body }, one]] of changes.entries()) {
      if (body.length === 0) continue;
      const { bytes, allowed } = changed(body, one);
      await send(`any change ${n}`, bytes, one.of === 'length' && !allowed.includes(204));
    }
    return answers;
  } finally {
    wire.close();
  }
}

/** The bodies of the catalogue, as they are and as events of their own, and larger ones. */
function catalogued(): [name: string, body: Buffer][] {
  const own = bodies.map(([name, body], n): [string, Buffer] => [
    `${name}, with a cursor of its own`,
    Buffer.from(
      body
        .toString('latin1')
        .replace('"cursor":"1"', `"cursor":"${1_000 + n}"`)
        .replace('"evt_1"', `"own_${n}"`),
      'latin1',
    ),
  ]);
  const texts = [
    ...naughty,
    '\0',
    'a\0b',
    '\ud800',
    '1e200000',
    noise(1, 3_000),
    noise(2, 100_000),
    'x'.repeat(MB + 1),
  ];
  const written = texts.map((text, n): [string, Buffer] => [
    `I78: text ${n}`,
    bodyOf({ cursor: String(2_000 + n), data: { MessageReceived: message({ body: text, from: text }) } }),
  ]);
  const long = [200, 201, 3_000, 100_000].flatMap((length, n): [string, Buffer][] => {
    const text = noise(n, length);
    const visible = noise(n, length, 0x21, 94);
    return [
      [`an id of ${length}`, bodyOf({ cursor: String(3_000 + n), id: visible })],
      [`a type of ${length}`, bodyOf({ cursor: String(3_010 + n), type: visible })],
      [
        `a session of ${length}`,
        bodyOf({ cursor: String(3_020 + n), session_id: text, data: { MessageReceived: {} } }),
      ],
      [
        `a sender of ${length}`,
        bodyOf({ cursor: String(3_030 + n), data: { MessageReceived: message({ from: text }) } }),
      ],
    ];
  });
  const number = Buffer.from(bodyOf({ cursor: '4000' }).toString().replace('"hello"', '1e200000'));
  return [
    ...bodies.map(([name, body]): [string, Buffer] => [name, body]),
    ...own,
    ...written,
    ...long,
    ['1e200000', number],
  ];
}

/** Batches and pages as `receive` and `keep` commit them. */
async function acceptAll(store: Store): Promise<string[]> {
  const answers: string[] = [];
  const items = bodies.map(([name, body], n) => ({
    name,
    reading: readItem(n % 2 ? 'replay' : 'stream', String(5_000 + n) as Cursor, body.toString()),
  }));
  for (const { name, reading } of items)
    answers.push(`${name}, as an item: ${JSON.stringify(await store.ingest.accept({ readings: [reading], now: T0 }))}`);
  for (const [n, batch] of batchesOf(SEED, CASES.batches).entries())
    answers.push(`batch ${n}: ${JSON.stringify(await store.ingest.accept(batch))}`);
  return answers;
}

/** Makes the tasks of all events, and ends them in every way. */
async function runAll(store: Store): Promise<string[]> {
  const loaded = ['arrival', 'window', 'strict'].map((order) =>
    handlerOf({ name: order, order: order as 'window', history: true }),
  );
  const numbers = await store.work.register(loaded.map(({ name }) => name));
  const handlers = new Map(loaded.map((handler) => [numbers.get(handler.name) ?? 0, handler]));
  const answers: string[] = [];
  let now = T0 + 1_000_000_000;
  let settle: Settlement[] = [];
  for (let turns = 0; turns < 1_000; turns++) {
    now += 1_000;
    const found = await store.work.pending(500);
    const tasks = found.events.flatMap((event) =>
      tasksOf(event, found, { handlers, windowMs: 250, now, onLaneFault: () => {} }),
    );
    const upTo = found.events.at(-1)?.seq;
    const fanOut = upTo === undefined ? null : { from: found.from, upTo, tasks };
    const turn = await store.work.turn({ now, boot: 1, settle, fanOut, room: ROOM, handlers: [...handlers.keys()] });
    answers.push(...turn.claims.map((claim) => `turn ${turns}: ${told(claim)}`).toSorted());
    if (turn.claims.length === 0 && fanOut === null && settle.length === 0) break;
    settle = turn.claims.map((claim) => endOf(claim, now));
  }
  return answers;
}

const told = ({ event, handler, attempt, late, unproven }: Claim): string =>
  JSON.stringify([event.key, handler, event.sessionId, attempt, late, unproven]);

/** How an attempt ends follows from its event alone, because the kinds need not claim in the same order. */
function endOf(claim: Claim, now: number): Settlement {
  const n = Number(BigInt(claim.event.cursor ?? 0) % 5n);
  const error = `Error: no\0\ud800 ${noise(n, 4_000)}`;
  if (n === 1) return { claim, state: 'dead', error };
  if (n === 2) return { claim, state: 'skipped', error };
  if (n === 3 && claim.attempt === 1) return { claim, state: 'ready', error, dueAt: now + 1_000, holdMs: 120_000 };
  return { claim, state: 'done', error: null };
}
