// The verbs of `run` that are the same on SQLite and PostgreSQL.
import type { Clock } from '../base/clock.ts';
import { giveBack, takeRole } from './boots.ts';
import { register } from './handlers.ts';
import { createOwned } from './owned.ts';
import type { Database } from './sql.ts';
import type { WorkStore } from './work.ts';

/** `instance`: the kit that this process belongs to. No two kits that run have the same. */
export function createShared(
  db: Database,
  clock: Clock,
  instance = 'kit',
): Pick<WorkStore, 'begin' | 'end' | 'register' | 'note' | 'complete' | 'steps' | 'setup'> {
  return {
    begin: (role, restart) => db.write((tx) => takeRole(tx, { instance, clock }, role, restart)),
    // The row stays until the role is taken, or others judge it. So its handlers are not missing while it starts anew.
    end: (boot) => db.write((tx) => giveBack(tx, boot)),
    register: (files, newest, boot) => db.write((tx) => register(tx, files, newest, boot)),
    ...createOwned(db, clock),
  };
}
