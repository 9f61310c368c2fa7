// The store for people: what they read and change, over one connection.
import { systemClock, type Clock } from '../../base/clock.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { createBoots } from '../../store/sqlite/boots.ts';
import { createCounters } from '../../store/sqlite/counters.ts';
import { createLanes, createTasks } from '../../store/sqlite/lanes.ts';
import { createState } from '../../store/sqlite/state.ts';
import { Admin } from './sqlite-admin.ts';
import { Read } from './sqlite-read.ts';
import { createReruns, type Reruns } from './sqlite-reruns.ts';

/** What a store offers to people: another store has the same. */
export type ReadStore = Pick<Read, keyof Read>;
export type AdminStore = Pick<Admin, keyof Admin>;

export interface PeopleStore {
  read: ReadStore;
  admin: AdminStore;
}

/** `reading`: a connection of its own for reads, so that they wait for no write. */
export function openForPeople(db: Db, reading: Db = db, clock: Clock = systemClock): PeopleStore {
  const state = createState(db);
  return {
    read: new Read(reading, clock),
    admin: new Admin(db, state, createLanes(db, state), clock),
  };
}

/** Reruns, which `run` hands to its handlers. */
export function openReruns(db: Db, clock: Clock = systemClock): Reruns {
  const lanes = createLanes(db, createState(db));
  const [counters, boots, tasks] = [createCounters(db), createBoots(db, lanes), createTasks(db, lanes)];
  return createReruns(db, { clock, boots, counters, lanes, tasks });
}
