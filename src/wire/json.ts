// Bytes to JSON, once, for bytes that anyone may have written and that a right signature only proves to be the
// service's. Refuses what no later step could hold: invalid UTF-8, nesting that makes stringify overflow, and so many
// values that parsing them would keep other deliveries waiting.
import { createHash } from 'node:crypto';

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

export type Parsed = { ok: true; value: Json; duplicateKeys: boolean } | { ok: false; reason: string };

const DEEPEST = 64;
/**
 * Keys and items of lists, together: what takes time is their number, not their length. The longest list of the contract
 * has 10,000 phones (4.2), and media come as one string. Parsing so many takes some 20 ms; a million takes a second.
 */
const MOST = 50_000;
const utf8 = new TextDecoder('utf-8', { fatal: true });

export function parseJson(bytes: Uint8Array): Parsed {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return { ok: false, reason: 'not UTF-8' };
  }
  return parseJsonText(text);
}

export function parseJsonText(text: string): Parsed {
  const surveyed = survey(text);
  if ('reason' in surveyed) return { ok: false, reason: surveyed.reason };
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return { ok: false, reason: 'not JSON' };
  }
  return { ok: true, value, duplicateKeys: countKeys(value) !== surveyed.keys };
}

/** The digits of a top-level number as they were written; JSON.parse alone would round them. */
export function sourceOfNumber(bytes: Uint8Array, key: string): string | undefined {
  const sources = new Map<unknown, string | undefined>();
  function note(this: unknown, name: string, value: unknown, context?: { source?: string }): unknown {
    if (name === key) sources.set(this, context?.source);
    return value;
  }
  const root: unknown = JSON.parse(utf8.decode(bytes), note);
  return sources.get(root);
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Equal as JSON values, whatever the order of keys; 0 and -0 are one number, as Node's isDeepStrictEqual would not have it. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, i) => sameJson(item, b[i] ?? null));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key] ?? null, b[key] ?? null))
  );
}

/** The same for what `sameJson` calls equal, and short: 16 bytes. */
export function digestOf(value: Json): Uint8Array {
  return createHash('sha256').update(canonical(value)).digest().subarray(0, 16);
}

function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  // JSON has no word for the infinity that 1e400 becomes.
  if (!isObject(value))
    return typeof value === 'number' && !Number.isFinite(value) ? String(value) : JSON.stringify(value);
  const keys = Object.keys(value).toSorted();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key] ?? null)}`).join()}}`;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

/**
 * The colons outside strings, which are as many as the keys in the text; or why it need not be parsed. Ends at the first
 * of these reasons, and looks at no character twice.
 */
function survey(text: string): { keys: number } | { reason: string } {
  let open = 0;
  let keys = 0;
  let items = 0;
  let strings = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      // Between two strings there is a comma or a colon.
      if (++strings > keys + items + 1) return { reason: 'not JSON' };
      i = endOfString(text, i + 1);
    } else if (code === COLON || code === COMMA) {
      if (code === COLON) keys++;
      else items++;
      if (keys + items > MOST) return { reason: `more than ${MOST} keys and items` };
    } else if (code === 0x7b || code === 0x5b) {
      if (++open > DEEPEST) return { reason: `nested deeper than ${DEEPEST}` };
    } else if (code === 0x7d || code === 0x5d) open--;
  }
  return { keys };
}

/** Media are megabytes without a backslash: the first quote ends them. */
function endOfString(text: string, from: number): number {
  const quote = text.indexOf('"', from);
  if (quote === -1) return text.length;
  if (text.charCodeAt(quote - 1) !== BACKSLASH) return quote;
  let i = from;
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === BACKSLASH) i++;
    else if (code === QUOTE) break;
  }
  return i;
}

function countKeys(value: Json): number {
  if (typeof value !== 'object' || value === null) return 0;
  let keys = Array.isArray(value) ? 0 : Object.keys(value).length;
  for (const item of Object.values(value)) keys += countKeys(item);
  return keys;
}
