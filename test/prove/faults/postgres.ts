// F50: a store in PostgreSQL. A real server fails, or refuses, and one or two instances of the kit use it.
import { disk } from './postgres/disk.ts';
import { lead } from './postgres/lead.ts';
import { locks } from './postgres/locks.ts';
import { network } from './postgres/network.ts';
import { pooler } from './postgres/pooler.ts';
import { refusals } from './postgres/refusals.ts';
import { schema } from './postgres/schema.ts';
import type { Fault } from './scene.ts';

export const postgres: Fault[] = [...network, ...disk, ...locks, ...refusals, ...schema, ...lead, ...pooler];
