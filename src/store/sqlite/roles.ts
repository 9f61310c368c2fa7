// The roles of the store on a connection of SQLite.
import type { Roles } from '../store.ts';
import type { Dropped } from '../sql/ingest/events.ts';
import { assembleRoles } from '../sql/roles.ts';
import { createSession } from '../sql/session.ts';
import type { Connection } from './connection.ts';
import { createDatabase } from './database.ts';
import { faultOf } from './fault.ts';
import { createIdSweep, createIds } from './ingest/ids.ts';
import { createEventTable } from './ingest/table.ts';
import { createSession as createOwnSession } from './session.ts';

/** Bytes of a WAL frame: page and header. Frames are counted, because the file stays large when the WAL begins anew. */
const FRAME_BYTES = 4_096 + 24;

export interface RoleOptions {
  failing: Set<string>;
  onDropped: Dropped;
  idsInSegment: number | undefined;
  settleLog: (always?: boolean) => void;
  /** Called when the store was settled, with its identity. */
  onSettled: (identity: string) => void;
}

export function createRoles(db: Connection, path: string, options: RoleOptions): Roles {
  const { failing, onDropped, idsInSegment, settleLog, onSettled } = options;
  const session = createSession(createDatabase(db, path));
  const own = createOwnSession(db, path);
  const ids = createIds(own, idsInSegment);
  const dropOldIds = createIdSweep(own, idsInSegment);
  const roles = assembleRoles(session, {
    events: createEventTable(db, ids, session.count),
    failing,
    onDropped,
    dropOldIds: async (before) => dropOldIds(before),
    async checkpoint(restart) {
      const [{ log }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ log: number }];
      if (restart) db.pragma('wal_checkpoint(RESTART)');
      return restart ? 0 : log * FRAME_BYTES;
    },
    async shred(last) {
      // SQLite then overwrites deleted content, also whole pages of the file. The WAL also holds it until it is emptied.
      db.pragma(last ? 'wal_checkpoint(TRUNCATE)' : 'secure_delete = on');
    },
  });

  /** Sorts ids before the transaction, which thereby stays short. */
  function fold(now: number): void {
    try {
      ids.fold(now);
    } catch (error) {
      if (faultOf(error, path)) throw error;
      onDropped('the order of ids', error);
    }
  }

  return {
    ...roles,
    ingest: {
      async accept(batch) {
        settleLog();
        fold(batch.now);
        return roles.ingest.accept(batch);
      },
      sync: async () => settleLog(),
    },
    work: {
      ...roles.work,
      async complete(...given) {
        settleLog();
        return roles.work.complete(...given);
      },
      async noteTask(...given) {
        settleLog();
        return roles.work.noteTask(...given);
      },
    },
    processes: {
      ...roles.processes,
      async settle() {
        settleLog(true);
        onSettled(await roles.processes.identity());
      },
      // The owner of the file is the only instance.
      lead: async () => ({ instance: 0, leads: true, lost: [], againMs: null }),
      resign: async () => {},
      leave: () => roles.processes.gone('receive'),
      instances: async () => [],
    },
  };
}
