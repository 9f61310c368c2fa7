// Checkpoints of the WAL.
import type { Connection } from './connection.ts';

/** Bytes of a WAL frame: page and header. Frames are counted, because the file stays large when the WAL begins anew. */
const FRAME_BYTES = 4_096 + 24;

export function createCheckpoint(db: Connection): (restart: boolean) => number {
  return (restart) => {
    const [{ log }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ log: number }];
    if (restart) db.pragma('wal_checkpoint(RESTART)');
    return restart ? 0 : log * FRAME_BYTES;
  };
}
