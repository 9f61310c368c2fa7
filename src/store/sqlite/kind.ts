// The addresses `sqlite:<path>`.
import type { Kind } from '../site.ts';
import { openLater } from './open-later.ts';
import { openSqlite } from './open.ts';
import { siteOf } from './site.ts';

export const pathOf = (url: string): string => url.slice('sqlite:'.length);

export const sqlite: Kind = {
  scheme: /^sqlite:/,
  open: (url, options) => openSqlite(pathOf(url), options),
  openLater: (url, options) => openLater(pathOf(url), () => openSqlite(pathOf(url), options)),
  siteOf: (url) => siteOf(pathOf(url)),
};
