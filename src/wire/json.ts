// Parses JSON that strangers may have written: it refuses invalid UTF-8, deep nesting, and more values than can be
// parsed without delaying other deliveries.
import { orUndefined } from '../base/errors.ts';

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

type Refused = { ok: false; reason: string };
export type Parsed = { ok: true; value: Json } | Refused;

const DEEPEST = 64;
/**
 * Maximum number of commas and colons outside of strings, because parsing time depends on it more than on the length.
 * The longest list of the contract has 10,000 phones (4.2), and a media file is one string.
 */
const MOST = 50_000;
const utf8 = new TextDecoder('utf-8', { fatal: true });

export function parseJson(bytes: Uint8Array): Parsed {
  const text = orUndefined(() => utf8.decode(bytes));
  return text === undefined ? { ok: false, reason: 'not UTF-8' } : parseJsonText(text);
}

export function parseJsonText(text: string): Parsed {
  const refused = survey(text);
  if (refused) return refused;
  const value = orUndefined(() => JSON.parse(text) as Json);
  return value === undefined ? NOT_JSON : { ok: true, value };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

/** Numbers, literals and whitespace. The regular expression skips megabytes of them faster than a loop. */
const BETWEEN = /[^"[\]{},:]+/y;
const NOT_JSON: Refused = { ok: false, reason: 'not JSON' };

/** Finds a reason to refuse the text before it is parsed. Stops at the first reason, so MOST limits the steps. */
function survey(text: string): Refused | undefined {
  let open = 0;
  let parts = 0;
  /** True after the end of a string, an object or a list: only a comma, a colon or another end may follow. */
  let ended = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      if (ended) return NOT_JSON;
      i = endOfString(text, i + 1);
      ended = true;
    } else if (code === COLON || code === COMMA) {
      if (++parts > MOST) return { ok: false, reason: `more than ${MOST} commas and colons` };
      ended = false;
    } else if (code === 0x7b || code === 0x5b) {
      if (ended) return NOT_JSON;
      if (++open > DEEPEST) return { ok: false, reason: `nested deeper than ${DEEPEST}` };
    } else if (code === 0x7d || code === 0x5d) {
      if (--open < 0) return NOT_JSON;
      ended = true;
    } else {
      BETWEEN.lastIndex = i;
      BETWEEN.test(text);
      i = BETWEEN.lastIndex - 1;
    }
  }
  return undefined;
}

/** Finds the closing quote. Media are megabytes without a backslash, so the first quote usually closes the string. */
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
