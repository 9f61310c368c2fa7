// Opens the store that DATABASE_URL names. No other file outside the stores knows which kinds there are.
import { openLater as openSqliteLater } from './sqlite/open-later.ts';
import { openSqlite } from './sqlite/open.ts';
import { siteOf as sqliteSiteOf } from './sqlite/site.ts';
import { openPostgres } from './postgres/open.ts';
import { siteOf as postgresSiteOf } from './postgres/site.ts';
import type { OpenOptions, Site } from './site.ts';
import type { Store } from './store.ts';

export type { OpenOptions, Replaced } from './site.ts';

/** The URL of a store in memory. It is gone when it is closed. */
export const IN_MEMORY = 'sqlite::memory:';

/** `url`: `sqlite:<path>` or `postgres://…`. Throws StoreError if the store is missing, replaced or of a newer kit. */
export function open(url: string, options?: OpenOptions): Store {
  return isPostgres(url) ? openPostgres(url, options) : openSqlite(pathOf(url), options);
}

/** Opens the store at the first call that succeeds. Until then, each call throws StoreError. */
export function openLater(url: string, options?: OpenOptions): Store {
  // A PostgreSQL store is always opened at the first call.
  return isPostgres(url) ? openPostgres(url, options) : openSqliteLater(pathOf(url), () => open(url, options));
}

/** `moveFrom`: the address of an SQLite store that is to be moved into the one of `url`. */
export function siteOf(url: string, moveFrom?: string): Site {
  if (!isPostgres(url)) return sqliteSiteOf(pathOf(url));
  const path = moveFrom && pathOf(moveFrom);
  return postgresSiteOf(url, path ? { path, site: sqliteSiteOf(path) } : undefined);
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

function pathOf(url: string): string {
  if (!url.startsWith('sqlite:')) throw new Error(`no kind of store has addresses like ${url.split(':')[0]}:`);
  return url.slice('sqlite:'.length);
}
