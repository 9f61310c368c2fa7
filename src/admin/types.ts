// Learns from the newest events of each type what its data look like, and where src/events.ts differs from them.
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { orUndefined } from '../base/errors.ts';
import { eventTypes } from '../events.ts';
import type { ShownEvent } from '../store/read.ts';
import type { Store } from '../store/store.ts';
import { dataOfText, SENT_BY_KIT } from '../wire/event.ts';
import { typeOf } from '../wire/event-map.ts';
import type { JsonObject } from '../wire/json.ts';
import { createFields, type Field } from './fields.ts';

/** Of each type, this many of its newest events are read, if their bodies are no longer than LONGEST bytes. */
export const NEWEST = 200;
const LONGEST = 1_048_576;
const PAGE = 50;
/** A page searches at most 10,000 events, so at most a million are searched for a rare type. */
const MOST_PAGES = 100;
const WEEK_MS = 604_800_000;
const utf8 = new TextDecoder();

export interface LearnedType {
  type: string;
  /** How many events were read. */
  events: number;
  /** Whether src/events.ts, or the kit itself, defines the type. */
  defined: boolean;
  root: Field;
}

/** Yields each type that came or that src/events.ts defines, or only the given one. */
export async function* learnTypes(
  { read }: Pick<Store, 'read'>,
  now: number,
  only?: string,
): AsyncGenerator<LearnedType> {
  const arrivals = await read.arrivals();
  const types = only === undefined ? [...Object.keys(eventTypes), ...arrivals.map(({ type }) => type)] : [only];
  for (const type of new Set(types)) {
    // The newest week in which the type came is the first that names it. If none does, nothing is searched, unless the
    // type was asked for: arrivals leave out events without a cursor.
    const week = arrivals.find((one) => one.type === type)?.week;
    const until = week !== undefined ? Date.parse(week) + WEEK_MS : only === undefined ? 0 : undefined;
    yield learnType(type, newestOf(read, { type, until }, now));
  }
}

async function learnType(type: string, newest: AsyncIterable<JsonObject>): Promise<LearnedType> {
  const schema = typeOf(type)?.data;
  const named = schema && orUndefined(() => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
  const { root, learn, refuse, tidy } = createFields(named);
  let events = 0;
  for await (const data of newest) {
    learn(data);
    refuse(data, schema ? faultsIn(schema, data) : []);
    if (++events === NEWEST) break;
  }
  tidy();
  return { type, events, defined: schema !== undefined, root };
}

/** The paths at which the schema refuses the data. Schemas in src/events.ts are the user's code, and may throw. */
function faultsIn(schema: z.ZodType, data: JsonObject): PropertyKey[][] {
  const parsed = orUndefined(() => schema.safeParse(data));
  return parsed ? (parsed.error?.issues.map(({ path }) => path) ?? []) : [[]];
}

/** The data of the events of one type, newest first, without those that `trigger` and `doctor` sent. */
async function* newestOf(
  read: Store['read'],
  filter: { type: string; until: number | undefined },
  now: number,
): AsyncGenerator<JsonObject> {
  let before: number | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const begun = performance.now();
    const { events, next } = await read.events({ ...filter, before, limit: PAGE }, now);
    for (const event of events) {
      const short = event.bytes !== null && event.bytes <= LONGEST;
      const body = short ? await read.body(event.key) : null;
      const data = body && orUndefined(() => dataIn(event, utf8.decode(body)));
      if (data) yield data;
    }
    if (next === null) return;
    before = next;
    // Sleeps as long as this page took, so that the receiver is not delayed.
    await sleep(performance.now() - begun);
  }
}

function dataIn({ origin, type }: ShownEvent, text: string): JsonObject | undefined {
  const { sent_by } = JSON.parse(text) as JsonObject;
  return sent_by === SENT_BY_KIT ? undefined : dataOfText(origin, type, text);
}
