// Bytes to JSON, once, for bytes that anyone may have written and that a right signature only proves to be the
// service's. Refuses what no later step could hold: invalid UTF-8, and nesting that makes stringify overflow.
import { createHash } from 'node:crypto';

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

export type Parsed = { ok: true; value: Json; duplicateKeys: boolean } | { ok: false; reason: string };

const DEEPEST = 64;
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
  const { depth, keys } = measure(text);
  if (depth > DEEPEST) return { ok: false, reason: `nested deeper than ${DEEPEST}` };
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return { ok: false, reason: 'not JSON' };
  }
  return { ok: true, value, duplicateKeys: countKeys(value) !== keys };
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
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** Depth of nesting, and colons outside strings, which are as many as the keys in the text. */
function measure(text: string): { depth: number; keys: number } {
  let depth = 0;
  let open = 0;
  let keys = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i + 1);
    else if (code === COLON) keys++;
    else if (code === 0x7b || code === 0x5b) depth = Math.max(depth, ++open);
    else if (code === 0x7d || code === 0x5d) open--;
  }
  return { depth, keys };
}

function endOfString(text: string, from: number): number {
  for (let i = text.indexOf('"', from); i !== -1; i = text.indexOf('"', i + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(i - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return i;
  }
  return text.length;
}

function countKeys(value: Json): number {
  if (typeof value !== 'object' || value === null) return 0;
  let keys = Array.isArray(value) ? 0 : Object.keys(value).length;
  for (const item of Object.values(value)) keys += countKeys(item);
  return keys;
}
