// What is learned of the fields of a type: their names, how often each came, and kinds of values. No value is kept.
import type { z } from 'zod';
import { isObject } from '../wire/json.ts';

export interface Field {
  /** How often a value came. 0: only the schema in src/events.ts names the field. */
  times: number;
  kinds: Map<string, number>;
  /** By name. ITEM: the items of a list. KEY: the values of a map. */
  fields: Map<string, Field>;
  named: boolean;
  /** How many events the schema refuses here, because there is no value, or one that does not fit. */
  missing: number;
  misfits: number;
}

export const ITEM = '[]';
export const KEY = '<key>';
/** Shaped like session_id. Any other key, for example a phone number or Ana, may name a person, and is shown as KEY. */
const WORD = /^(?!(\D*\d){5})[a-z]\w{0,39}$/;
/** An object with more names, beside those of the schema, is a map. */
const MOST_NAMES = 60;
const DEEPEST = 6;
/** Maximum number of fields of a type, and of values of one object or list that are looked at. */
const MOST = 5_000;

export function createFields(schema: z.core.JSONSchema.BaseSchema | undefined) {
  const root = newField();
  if (schema) nameAll(root, schema);
  let room = MOST;

  /** The field of this key. Once there are too many fields, it is not kept. */
  function below({ fields }: Field, key: PropertyKey): Field {
    const name = typeof key !== 'string' ? ITEM : fields.has(key) || isWord(key) ? key : KEY;
    const found = fields.get(name) ?? fields.get(fields.size < 2 * MOST_NAMES ? name : KEY);
    if (found) return found;
    const field = newField();
    if (room-- > 0) fields.set(fields.size < 2 * MOST_NAMES ? name : KEY, field);
    return field;
  }

  function learn(value: unknown, at = root, depth = 0): void {
    at.times++;
    count(at.kinds, kindOf(value));
    if (depth === DEEPEST || typeof value !== 'object' || value === null) return;
    const inner: [PropertyKey, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
    for (const [key, one] of inner.slice(0, MOST)) learn(one, below(at, key), depth + 1);
  }

  /** Notes the places where the schema refuses these data, each once. */
  function refuse(data: unknown, paths: PropertyKey[][]): void {
    const places = new Map<Field, boolean>();
    for (const path of paths) {
      let [at, value] = [root, data];
      for (const key of path.slice(0, DEEPEST)) {
        at = below(at, key);
        value = Object.getOwnPropertyDescriptor(Object(value), key)?.value;
      }
      places.set(at, value === undefined);
    }
    for (const [field, missing] of places) field[missing ? 'missing' : 'misfits']++;
  }

  return { root, learn, refuse, tidy: () => tidy(root, false) };
}

/** Not `constructor` and the like, which schemas find in every object. */
function isWord(key: string): boolean {
  return WORD.test(key) && !(key in Object.prototype);
}

function newField(): Field {
  return { times: 0, kinds: new Map(), fields: new Map(), named: false, missing: 0, misfits: 0 };
}

/** Adds the fields that a schema names. */
function nameAll(at: Field, schema: z.core.JSONSchema.BaseSchema): void {
  at.named = true;
  for (const one of [schema.anyOf, schema.oneOf, schema.allOf].flatMap((list) => list ?? [])) nameAll(at, one);
  const { properties, items, additionalProperties } = schema;
  const inner = { ...properties, [ITEM]: items, [KEY]: schema.propertyNames && additionalProperties };
  for (const [name, one] of Object.entries(inner)) {
    if (!isObject(one)) continue;
    const field = at.fields.get(name) ?? newField();
    at.fields.set(name, field);
    nameAll(field, one);
  }
}

/**
 * Hides the names in maps: objects with very many names, with a key that is no word, or with several names none of
 * which is in half of the objects. The data themselves are a map only if they have very many names.
 */
function tidy({ fields, kinds }: Field, inner = true): void {
  const half = (kinds.get('object') ?? 0) / 2;
  const free = [...fields].filter(([name, { named }]) => name !== ITEM && name !== KEY && !named);
  const rare = free.length > 1 && [...fields.values()].every(({ times }) => times < half);
  if (free.length > MOST_NAMES || (inner && (rare || fields.has(KEY))))
    for (const [name, field] of free) {
      fields.delete(name);
      fields.set(KEY, merged(fields.get(KEY) ?? newField(), field));
    }
  for (const field of fields.values()) tidy(field);
}

function merged(into: Field, from: Field): Field {
  for (const name of ['times', 'missing', 'misfits'] as const) into[name] += from[name];
  for (const [kind, times] of from.kinds) count(into.kinds, kind, times);
  for (const [name, field] of from.fields) into.fields.set(name, merged(into.fields.get(name) ?? newField(), field));
  return into;
}

function count(kinds: Map<string, number>, kind: string, times = 1): void {
  kinds.set(kind, (kinds.get(kind) ?? 0) + times);
}

const FORMATS: [string, RegExp][] = [
  ['UUID', /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i],
  ['digits', /^-?\d{1,15}$/],
  ['long digits', /^-?\d{16,19}$/],
  ['time', /^\d{4}-\d\d-\d\dT\d\d:\d\d/],
];

/** A string of a known format has the name of the format. */
function kindOf(value: unknown): string {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'number';
  if (typeof value === 'string') return FORMATS.find(([, format]) => format.test(value))?.[0] ?? 'string';
  return value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value;
}
