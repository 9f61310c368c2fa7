import { openPostgres } from '../../src/store/postgres/open.ts';
import type { Store } from '../../src/store/store.ts';
import { urlOf } from './server.ts';

/** The store that stands for this path, as the main process of an instance has it. */
export const openAt = (path: string): Store => openPostgres(urlOf(path), { owner: true });
