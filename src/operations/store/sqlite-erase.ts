// Erasing: events lose what they hold, and so does what is known about them. Their rows stay.
import type { Db } from '../../store/sqlite/database.ts';
import { createWalk } from './walk.ts';

const statements = (db: Db) => ({
  holding: db.value<number>('select seq from events where seq > ? and seq <= ? and instr(body, ?) > 0'),
  event: db.sql('update events set body = null where seq = ? and body is not null'),
  tasks: db.sql("update tasks set notes = null, error = iif(error is null, null, 'erased') where event = ?"),
  attempts: db.sql("update attempts set error = 'erased' where event = ?"),
  contradictions: db.sql('update quarantine set body = null where event = ? and body is not null'),
  quarantine: db.sql('update quarantine set body = null where instr(body, ?) > 0'),
});

/**
 * Erases one event, or all that hold this text as a whole JSON string: their bodies, and errors, notes and quarantined
 * bytes about them. The rows stay, so that replay brings nothing back.
 */
export function createErasing(db: Db) {
  const sql = statements(db);
  const walk = createWalk(db, 'seq', 'events');

  return async (what: { event: number } | { text: string }): Promise<{ events: number; quarantined: number }> => {
    const erased = { events: 0, quarantined: 0 };
    const erase = (seqs: number[]): Promise<void> =>
      db.write(() => {
        for (const seq of seqs) {
          erased.events += sql.event.run(seq).changes;
          erased.quarantined += sql.contradictions.run(seq).changes;
          sql.tasks.run(seq);
          sql.attempts.run(seq);
        }
      });
    // What was there is overwritten, not only forgotten.
    db.raw.pragma('secure_delete = on');
    if ('event' in what) {
      await erase([what.event]);
      return erased;
    }
    const bytes = Buffer.from(JSON.stringify(what.text));
    await walk(async (from, to) => {
      const found = await db.query(() => sql.holding.all(from, to, bytes));
      if (found.length > 0) await erase(found);
    });
    erased.quarantined += await db.write(() => sql.quarantine.run(bytes).changes);
    return erased;
  };
}
