// Reads the text of a page item by item: a page that is larger than what was asked for, or full of junk, is never parsed
// as a whole, so that it costs `keep` its bytes and no more.
import { ServiceError } from '../service/errors.ts';
import type { Cursor } from '../wire/cursor.ts';
import { choose } from './choose.ts';

export interface PageText {
  /** The largest answer, in bytes. */
  mostBytes: number;
  /** The page as an object, without the items that nobody asked for. Undefined: it is no JSON object. */
  read(text: Buffer): Record<string, unknown> | undefined;
  /** A page twice as long would fit as well. */
  isSmall(): boolean;
}

const MIB = 1024 * 1024;
/** Of a page of one item, which may be an event of 12 MiB (contract 6.3), escaped in a string. */
const ONE_BYTES = 64 * MIB;
/** A thousand events of 16 KB; parsed, a page takes a few times its bytes of memory. */
const PAGE_BYTES = 16 * MIB;
/** An item has two fields (contract 2.13); the rest leaves room for a service that adds some. */
const VALUES = { anItem: 50, page: 1_000, most: 2_000_000 };

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const BLANKS = new Set([0x20, 0x09, 0x0a, 0x0d]);
const [OPEN, CLOSE, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];

export function createPageText({ cursor, limit }: { cursor: Cursor | null; limit: number }): PageText {
  const mostBytes = limit === 1 ? ONE_BYTES : PAGE_BYTES;
  const mostValues = limit === 1 ? VALUES.most : VALUES.page + VALUES.anItem * limit;
  let small = true;

  return {
    mostBytes,
    isSmall: () => small,
    read(text) {
      small = 4 * text.length <= PAGE_BYTES;
      try {
        return parse(text);
      } catch (error) {
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
  };

  function parse(text: Buffer): Record<string, unknown> | undefined {
    let kept: unknown[] = [];
    const list = scan(text, mostValues, (from, to, values) => {
      kept.push(values > VALUES.page ? null : JSON.parse(text.toString('utf8', from, to)));
      // One more than was asked for says that there were more.
      if (kept.length > 2 * limit + 1_000) kept = choose(kept, cursor, limit + 1).items;
    });
    if (!list) return undefined;
    const rest = Buffer.concat([text.subarray(0, list.from), text.subarray(list.to)]).toString('utf8');
    const page = JSON.parse(rest) as unknown;
    if (typeof page !== 'object' || page === null || Array.isArray(page)) return undefined;
    return list.to > 0 ? { ...page, events: kept } : { ...page };
  }
}

interface List {
  /** Where the items begin and end; 0 where there are none. */
  from: number;
  to: number;
}

/** Finds the items of `events`. Undefined where brackets and strings do not close. Throws where there are too many values. */
function scan(
  text: Buffer,
  most: number,
  onItem: (from: number, to: number, values: number) => void,
): List | undefined {
  let depth = 0;
  let values = 0;
  /** Of what lies around the items: its values count apart. */
  let outside = 0;
  let name = '';
  const list = { from: 0, to: 0 };
  let inList = false;
  let item = { from: 0, values: 0 };

  function endItem(at: number): void {
    onItem(item.from, at, item.values);
    item = { from: at + 1, values: 0 };
  }

  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === QUOTE) {
      const end = endOfString(text, at);
      if (end === undefined) return undefined;
      if (depth === 1) name = text.toString('latin1', at + 1, Math.min(end, at + 10));
      at = end;
      continue;
    }
    if (byte === CLOSE || byte === CLOSE_LIST) {
      if (inList && depth === 2) {
        const isEmpty = item.from === list.from && isBlank(text, item.from, at);
        if (!isEmpty) endItem(at);
        list.to = at;
        inList = false;
      }
      depth--;
      if (depth < 0) return undefined;
      continue;
    }
    if (byte !== COMMA && byte !== OPEN && byte !== OPEN_LIST) continue;
    if (++values > most) throw tooMany(most);
    if (inList && byte === COMMA && depth === 2) {
      endItem(at);
      continue;
    }
    if (inList) item.values++;
    else if (++outside > VALUES.page) throw tooMany(VALUES.page);
    if (byte === COMMA) continue;
    depth++;
    if (byte === OPEN_LIST && depth === 2 && name === 'events') {
      // Named twice: nobody knows which list is meant.
      if (list.from > 0) return undefined;
      inList = true;
      list.from = at + 1;
      item = { from: at + 1, values: 0 };
    }
  }
  return depth === 0 ? list : undefined;
}

/** The place of the quote that ends the string that begins at `from`. */
function endOfString(text: Buffer, from: number): number | undefined {
  for (let at = text.indexOf(QUOTE, from + 1); at >= 0; at = text.indexOf(QUOTE, at + 1)) {
    let first = at;
    while (text[first - 1] === BACKSLASH) first--;
    if ((at - first) % 2 === 0) return at;
  }
  return undefined;
}

function isBlank(text: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (!BLANKS.has(text[at] ?? 0)) return false;
  return true;
}

function tooMany(most: number): ServiceError {
  return new ServiceError({
    code: 'unreadable',
    status: 200,
    message: `ReplayEvents was answered with more than ${most} values`,
  });
}
