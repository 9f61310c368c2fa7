// The lists of the service (contract 4.5): how to get from one page to the next, and which field holds the items.
import { ServiceError } from './errors.ts';
import { operationOf } from './operations.ts';
import type { Plain } from './shapes.ts';

const MOST_PER_PAGE = 200;

/** The pages of a list. `call` fetches one page. */
export async function* pagesOf(
  operation: string,
  request: Plain,
  call: (request: Plain) => Promise<Plain>,
): AsyncGenerator<Plain, void, void> {
  const { by } = operationOf(operation);
  const turn = by === 'page' ? nextByPage : nextByCursor;
  // Without a known kind of pages, `limit` could be a field outside the contract. A next_cursor is followed all the same.
  const first = by === 'cursor' ? { limit: MOST_PER_PAGE, ...request } : request;
  const seen = new Set<unknown>();
  for (let next: Next | undefined = turn(first, undefined); next;) {
    // If the pages repeat, the list never ends. Stopping without an error would make the list look complete.
    if (seen.has(next.at)) throw new ServiceError({ code: 'unreadable', message: `${operation}: its pages repeat` });
    seen.add(next.at);
    const page = await call(next.request);
    yield page;
    next = turn(next.request, page);
  }
}

export function itemsOf(operation: string, page: Plain): Plain[] {
  const field = operationOf(operation).items;
  const [list = [], ...others] = field ? [page[field] ?? []] : Object.values(page).filter(Array.isArray);
  if (Array.isArray(list) && others.length === 0) return list as Plain[];
  const message = `${operation}: it is not clear where its items are: name their field in src/service/operations.ts`;
  throw new ServiceError({ code: 'unreadable', status: 200, message });
}

interface Next {
  /** The cursor or the page number to ask for. */
  at: unknown;
  request: Plain;
}

/** For lists by cursor. An empty next_cursor means the end. */
function nextByCursor(request: Plain, page: Plain | undefined): Next | undefined {
  if (!page) return { at: request['cursor'] ?? '', request };
  const at = page['next_cursor'] ?? '';
  // A next_cursor that is not text is an error. If it meant the end, items would be lost silently.
  if (typeof at !== 'string')
    throw new ServiceError({ code: 'unreadable', status: 200, message: 'next_cursor is not text' });
  return at === '' ? undefined : { at, request: { ...request, cursor: at } };
}

/** For lists by page number (contract 2.7). */
function nextByPage(request: Plain, page: Plain | undefined): Next | undefined {
  const asked = (request['pagination'] ?? {}) as { page?: number };
  const { has_next_page: more, page: shown, total_pages: of } = (page?.['page'] ?? {}) as Plain;
  const last = more === undefined ? !(Number(of) > Number(shown)) : more !== true;
  if (page && last) return undefined;
  // The next page follows from the number in the answer. If the service ignores the requested one, the pages repeat.
  const at = page ? (typeof shown === 'number' ? shown : (asked.page ?? 1)) + 1 : (asked.page ?? 1);
  return { at, request: { ...request, pagination: { page_size: MOST_PER_PAGE, ...asked, page: at } } };
}
