// Erasing: events lose what they hold, and so does what is known about them. Their rows stay.
import { orUndefined } from '../../base/errors.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { createWalk } from './walk.ts';

const statements = (db: Db) => ({
  /** What is escaped may be the same text. */
  holding: db.sql<{
    seq: number;
    body: string | null;
  }>(`select seq, iif(instr(body, @text) > 0, null, cast(body as text)) as body
    from events where seq > @from and seq <= @to and (instr(body, @text) > 0 or instr(body, cast('\\u' as blob)) > 0)`),
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
      const rows = await db.query(() => sql.holding.all({ from, to, text: bytes }));
      const found = rows.filter(({ body }) => body === null || plain(body).includes(bytes.toString()));
      if (found.length > 0) await erase(found.map(({ seq }) => seq));
    });
    erased.quarantined += await db.write(() => sql.quarantine.run(bytes).changes);
    return erased;
  };
}

const plain = (body: string): string => JSON.stringify(orUndefined(() => JSON.parse(body) as unknown)) ?? '';
