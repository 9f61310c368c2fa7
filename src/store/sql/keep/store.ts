// The keep role of the store: pruning, and checkpoints of the WAL.
import type { KeepStore } from '../../keep.ts';
import type { Session } from '../session.ts';
import { createPruning } from './prune.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const SAMPLES_DAYS = 8;

/** What each database does in its own way. */
export interface Upkeep {
  /** Removes ids of pruned events that are from before `before`, if ids are kept apart from events. */
  dropOldIds: (before: number) => Promise<void>;
  checkpoint: KeepStore['checkpoint'];
  /** Comes before each step, so that no trace of the removed data stays on the disk. */
  shred: (last: boolean) => Promise<void>;
}

export function createKeepStore(session: Session, { dropOldIds, checkpoint, shred }: Upkeep): KeepStore {
  const removeArrivals = session.statement('delete from arrivals where day < ?');
  const removeQuarantine = session.statement('delete from quarantine where received_at < ?');
  const removeConflicts = session.statement('delete from conflicts where received_at < ?');
  const removeLanes = session.statement(`
    delete from lanes where id in (select lane from lane_progress where used_at < ?)
      and not exists (select 1 from tasks where lane = lanes.id and state = 'ready' and alone = 0)`);
  // A task that stepped aside may have ended after its lane was removed.
  const removeProgress = session.statement(
    'delete from lane_progress where used_at < ? and not exists (select 1 from lanes where id = lane)',
  );

  const thin = session.statement(`delete from samples where at < ? and at % ${MINUTE_MS} <> 0`);
  const drop = session.statement('delete from samples where at < ?');

  return {
    ...createPruning(session, () => shred(false)),
    async sweep(before) {
      await dropOldIds(before);
      const work = async (): Promise<void> => {
        await session.count({ quarantined: -(await removeQuarantine.run(before)) });
        await removeConflicts.run(before);
        // `lanes_swept` tells the process that keeps lanes in memory not to use the ids of removed lanes.
        if ((await removeLanes.run(before)) > 0) await session.increment('lanes_swept');
        await removeProgress.run(before);
        await removeArrivals.run(Math.floor(before / DAY_MS));
      };
      await session.write(work, 'work', 'door', 'lead');
    },
    async thinSamples(at) {
      await session.write(async () => {
        await thin.run(at - DAY_MS);
        await drop.run(at - SAMPLES_DAYS * DAY_MS);
      });
    },
    checkpoint,
  };
}
