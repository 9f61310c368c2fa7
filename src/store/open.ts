// Opens the store that DATABASE_URL names. No other file outside the stores knows which kinds there are.
import { openLater as openSqliteLater } from './sqlite/open-later.ts';
import { openSqlite, type OpenOptions } from './sqlite/open.ts';
import type { Store } from './store.ts';

export type { OpenOptions, Replaced } from './sqlite/open.ts';

/** The URL of a store in memory. It is gone when it is closed. */
export const IN_MEMORY = 'sqlite::memory:';

/** `url`: `sqlite:<path>`. Throws StoreError if the store is missing, replaced or of a newer kit. */
export function open(url: string, options?: OpenOptions): Store {
  return openSqlite(pathOf(url), options);
}

/** Opens the store at the first call that succeeds. Until then, each call throws StoreError. */
export function openLater(url: string, options?: OpenOptions): Store {
  return openSqliteLater(pathOf(url), () => open(url, options));
}

function pathOf(url: string): string {
  if (!url.startsWith('sqlite:')) throw new Error(`no kind of store has addresses like ${url.split(':')[0]}:`);
  return url.slice('sqlite:'.length);
}
