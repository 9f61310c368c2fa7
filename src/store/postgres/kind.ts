// The addresses `postgres://…`.
import type { Kind } from '../site.ts';
import { pathOf } from '../sqlite/kind.ts';
import { siteOf as fileAt } from '../sqlite/site.ts';
import { openPostgres } from './open.ts';
import { siteOf } from './site.ts';

export const postgres: Kind = {
  scheme: /^postgres(ql)?:/,
  open: openPostgres,
  // It is always opened at the first call.
  openLater: openPostgres,
  siteOf(url, moveFrom) {
    const path = moveFrom && pathOf(moveFrom);
    return siteOf(url, path ? { path, site: fileAt(path) } : undefined);
  },
};
