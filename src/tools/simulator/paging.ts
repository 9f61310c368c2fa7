// The pages of lists (contract 4.5), by cursor and by number. A cursor is opaque, belongs to its operation, and names a
// position of a list that only grows at its end, so that no item is skipped or repeated.
import { z } from 'zod';
import { Refusal } from './refusal.ts';
import { valid } from './valid.ts';

/** `cursor`, `page`: how the list is paged. `both`: by cursor, and each answer also has the page metadata. */
export type Paging = 'cursor' | 'both' | 'page';
export type Item = Record<string, unknown>;

interface List {
  operation: string;
  paging: Paging;
  /** The field of the answer that holds the items. */
  field: string;
  items: Item[];
}

const size = z.int().min(1).max(200);
const pagination = z.strictObject({ page: z.int().min(1).default(1), page_size: size.default(50) });
const none = z.never().optional();
const byPage = z.looseObject({ pagination: pagination.prefault({}), limit: none, cursor: none });
const byEither = z.looseObject({
  pagination: pagination.optional(),
  limit: size.optional(),
  cursor: z.string().optional(),
});
const unpaged = z.looseObject({ pagination: none, limit: none, cursor: none });

/** Throws Refusal if a request asks for pages of an answer that has none. */
export function refusePages(request: Item): void {
  valid(unpaged, request, 'REQUEST_INVALID');
}

/** One page. A field of the request that is also a field of the items filters them. `seen` hides items. */
export function pageOf({ operation, paging, field, items }: List, request: Item, seen: (item: Item) => boolean): Item {
  const asked = valid(paging === 'page' ? byPage : byEither, request, 'REQUEST_INVALID');
  const { pagination: number, limit, cursor } = asked;
  // The cursor has priority, so `limit` alone also asks for the first page by cursor.
  const isByNumber = number !== undefined && limit === undefined && cursor === undefined;
  const most = isByNumber ? number.page_size : (limit ?? 50);
  const shown = items.map((item, at) => ({ item, at })).filter(({ item }) => seen(item) && fits(item, asked));
  const first = cursor ? positionOf(operation, cursor) : 0;
  const from = isByNumber ? (number.page - 1) * most : shown.filter(({ at }) => at < first).length;
  const next = shown[from + most];
  const page = {
    page: Math.floor(from / most) + 1,
    page_size: most,
    total_pages: Math.ceil(shown.length / most),
    total_items: String(shown.length),
    has_next_page: next !== undefined,
  };
  return {
    [field]: shown.slice(from, from + most).map(({ item }) => item),
    ...(paging !== 'page' && { next_cursor: next ? cursorOf(operation, next.at) : '' }),
    ...((isByNumber || paging === 'both') && { page }),
  };
}

function fits(item: Item, request: Item): boolean {
  return Object.entries(request).every(([field, value]) => !(field in item) || item[field] === value);
}

function cursorOf(operation: string, at: number): string {
  return Buffer.from(`${operation} ${at}`).toString('base64url');
}

function positionOf(operation: string, cursor: string): number {
  const at = Number(Buffer.from(cursor, 'base64url').toString().split(' ')[1]);
  if (cursorOf(operation, at) !== cursor) throw new Refusal(400, 'REQUEST_INVALID', 'no page had this next_cursor');
  return at;
}
