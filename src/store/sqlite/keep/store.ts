// The keep role of the store: pruning, and checkpoints of the WAL.
import type { KeepStore } from '../../keep.ts';
import { createIdSweep } from '../ingest/ids.ts';
import type { Session, Sync } from '../session.ts';
import { createPruning } from './prune.ts';

const DAY_MS = 86_400_000;
/** Bytes of a WAL frame: page and header. Frames are counted, because the file stays large when the WAL begins anew. */
const FRAME_BYTES = 4_096 + 24;

export function createKeepStore(session: Session, idsInSegment?: number): Sync<KeepStore> {
  const { db } = session;
  const dropOldIds = createIdSweep(session, idsInSegment);
  const removeArrivals = db.prepare('delete from arrivals where day < ?');
  const removeQuarantine = db.prepare('delete from quarantine where received_at < ?');
  const removeConflicts = db.prepare('delete from conflicts where received_at < ?');
  const removeLanes = db.prepare(`
    delete from lanes where id in (select lane from lane_progress where used_at < ?)
      and not exists (select 1 from tasks where lane = lanes.id and state = 'ready' and alone = 0)`);
  // A task that stepped aside may have ended after its lane was removed.
  const removeProgress = db.prepare(
    'delete from lane_progress where used_at < ? and not exists (select 1 from lanes where id = lane)',
  );

  return {
    ...createPruning(session),
    sweep: (before) => {
      dropOldIds(before);
      session.write(() => {
        session.count({ quarantined: -removeQuarantine.run(before).changes });
        removeConflicts.run(before);
        // `lanes_swept` tells the process that keeps lanes in memory not to use the ids of removed lanes.
        if (removeLanes.run(before).changes > 0) session.increment('lanes_swept');
        removeProgress.run(before);
        removeArrivals.run(Math.floor(before / DAY_MS));
      });
    },
    checkpoint(restart) {
      const [{ log }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ log: number }];
      if (restart) db.pragma('wal_checkpoint(RESTART)');
      return restart ? 0 : log * FRAME_BYTES;
    },
  };
}
