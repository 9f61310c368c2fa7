// Opens the store that DATABASE_URL names.
import * as kinds from './kinds.ts';
import type { Kind, OpenOptions, Site } from './site.ts';
import type { Store } from './store.ts';

export type { OpenOptions, Replaced } from './site.ts';

/** The URL of a store in memory. It is gone when it is closed. */
export const IN_MEMORY = 'sqlite::memory:';

/** `url`: `sqlite:<path>` or `postgres://…`. Throws StoreError if the store is missing, replaced or of a newer kit. */
export function open(url: string, options?: OpenOptions): Store {
  return kindOf(url).open(url, options);
}

/** Opens the store at the first call that succeeds. Until then, each call throws StoreError. */
export function openLater(url: string, options?: OpenOptions): Store {
  return kindOf(url).openLater(url, options);
}

/** `moveFrom`: the address of an SQLite store that is to be moved into the one of `url`. */
export function siteOf(url: string, moveFrom?: string): Site {
  return kindOf(url).siteOf(url, moveFrom);
}

function kindOf(url: string): Kind {
  const kind = Object.values<Kind>(kinds).find(({ scheme }) => scheme.test(url));
  if (!kind) throw new Error(`no kind of store has addresses like ${url.split(':')[0]}: (src/store/kinds.ts)`);
  return kind;
}
