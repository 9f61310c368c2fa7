// Reads the JSON text of a ReplayEvents page item by item. A page with too many items, or full of junk, is never parsed
// as a whole. So a page costs `keep` little more memory than its bytes.
import { isUtf8 } from 'node:buffer';
import { ServiceError } from '../service/errors.ts';
import type { Cursor } from '../wire/cursor.ts';
import { choose } from './page.ts';

const MIB = 1024 * 1024;
/** The byte limit for a page of one item. An event may have 12 MiB (contract 6.3), and escaping makes it longer. */
const ONE_BYTES = 64 * MIB;
/** The byte limit for a page of several items: a thousand of 16 KB. Parsed, a page takes several times its size. */
const PAGE_BYTES = 16 * MIB;
/** Maximum JSON values: for each item (it has two fields), for the rest of the page, and in a page of one item. */
const VALUES = { anItem: 50, page: 1_000, most: 2_000_000 };

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const BLANKS = new Set([0x20, 0x09, 0x0a, 0x0d]);
const [OPEN, CLOSE, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];

export function createPageText({ cursor, limit }: { cursor: Cursor | null; limit: number }) {
  const mostValues = limit === 1 ? VALUES.most : VALUES.page + VALUES.anItem * limit;
  let small = true;

  function parse(text: Buffer): Record<string, unknown> | undefined {
    let kept: unknown[] = [];
    const list = scan(text, mostValues, (from, to, values) => {
      kept.push(values > VALUES.page ? null : itemOf(text.subarray(from, to)));
      if (kept.length <= 2 * limit + 1_000) return;
      // One item more than the limit is kept, so that `readPage` sees that items were left out.
      const { placed, aside } = choose(kept, cursor, limit + 1);
      kept = [...placed.map(({ item }) => item), ...aside];
    });
    if (!list) return undefined;
    const rest = Buffer.concat([text.subarray(0, list.from), text.subarray(list.to)]).toString('utf8');
    const page = JSON.parse(rest) as unknown;
    if (typeof page !== 'object' || page === null || Array.isArray(page)) return undefined;
    return list.to > 0 ? { ...page, events: kept } : { ...page };
  }

  return {
    /** The largest answer to accept, in bytes. */
    mostBytes: limit === 1 ? ONE_BYTES : PAGE_BYTES,
    /** True if the last page was so small that a page with twice as many items would fit. */
    isSmall: () => small,
    /** The page as an object, without surplus items. Undefined: the text is not a JSON object. */
    read(text: Buffer): Record<string, unknown> | undefined {
      small = 4 * text.length <= PAGE_BYTES;
      try {
        return parse(text);
      } catch (error) {
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
  };
}

/** An item that is not UTF-8 keeps its bytes, which are quarantined. */
function itemOf(bytes: Buffer): unknown {
  const item = JSON.parse(bytes.toString()) as unknown;
  if (isUtf8(bytes) || typeof item !== 'object') return item;
  return { ...item, json_payload: undefined, bytes: Buffer.from(bytes) };
}

/**
 * Calls `onItem` for each item of the list `events`. Returns where the list begins and ends, or 0 for both if there is
 * no list. Undefined: brackets or strings do not close, or there are two lists. Throws ServiceError: too many values.
 */
function scan(text: Buffer, most: number, onItem: (from: number, to: number, values: number) => void) {
  let depth = 0;
  let values = 0;
  /** Values outside of the items. They have a limit of their own. */
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
    } else if (byte === CLOSE || byte === CLOSE_LIST) {
      if (inList && depth === 2) {
        const isEmpty = item.from === list.from && text.subarray(item.from, at).every((blank) => BLANKS.has(blank));
        if (!isEmpty) endItem(at);
        list.to = at;
        inList = false;
      }
      if (--depth < 0) return undefined;
    } else if (byte === COMMA || byte === OPEN || byte === OPEN_LIST) {
      if (++values > most) throw tooMany(most);
      if (inList && byte === COMMA && depth === 2) endItem(at);
      else if (inList) item.values++;
      else if (++outside > VALUES.page) throw tooMany(VALUES.page);
      if (byte !== COMMA) depth++;
      if (byte === OPEN_LIST && depth === 2 && name === 'events') {
        // With two `events` lists it is unclear which one counts.
        if (list.from > 0) return undefined;
        inList = true;
        list.from = at + 1;
        item = { from: at + 1, values: 0 };
      }
    }
  }
  return depth === 0 ? list : undefined;
}

/** Finds the closing quote of the string that begins at `from`. */
function endOfString(text: Buffer, from: number): number | undefined {
  for (let at = text.indexOf(QUOTE, from + 1); at >= 0; at = text.indexOf(QUOTE, at + 1)) {
    let first = at;
    while (text[first - 1] === BACKSLASH) first--;
    if ((at - first) % 2 === 0) return at;
  }
  return undefined;
}

function tooMany(most: number): ServiceError {
  return new ServiceError({
    code: 'unreadable',
    status: 200,
    message: `ReplayEvents was answered with more than ${most} values`,
  });
}
