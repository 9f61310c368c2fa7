// F50: a store in PostgreSQL. A real server fails, or refuses, and one or two instances of the kit use it.
import { disk } from './postgres/disk.ts';
import { locks } from './postgres/locks.ts';
import { network } from './postgres/network.ts';
import type { Fault } from './scene.ts';

export const postgres: Fault[] = [...network, ...disk, ...locks];
