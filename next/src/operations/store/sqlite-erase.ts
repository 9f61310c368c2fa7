// Erasing: events lose what they hold, and so does what is known about them. Their rows stay.
import type { Db } from '../../store/sqlite/database.ts';
import type { createWalk } from './walk.ts';

const statements = (db: Db) => ({
  holding: db.value<number>('select seq from events where seq > ? and seq <= ? and instr(body, ?) > 0'),
  event: db.sql('update events set body = null where seq = ? and body is not null'),
  tasks: db.sql("update tasks set notes = null, error = iif(error is null, null, 'erased') where event = ?"),
  attempts: db.sql("update attempts set error = 'erased' where event = ?"),
  contradictions: db.sql('update quarantine set body = null where event = ? and body is not null'),
  quarantine: db.sql('update quarantine set body = null where instr(body, ?) > 0'),
});

export class Erasing {
  readonly #db: Db;
  readonly #walk: ReturnType<typeof createWalk>;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, walk: ReturnType<typeof createWalk>) {
    this.#db = db;
    this.#walk = walk;
    this.#sql = statements(db);
  }

  /**
   * One event, or all that hold this text as a whole JSON string: their bodies, and errors, notes and quarantined bytes
   * about them. The rows stay, so that replay brings nothing back.
   */
  async erase(what: { event: number } | { text: string }): Promise<{ events: number; quarantined: number }> {
    // What was there is overwritten, not only forgotten.
    this.#db.raw.pragma('secure_delete = on');
    const erased = { events: 0, quarantined: 0 };
    if ('event' in what) {
      await this.#events([what.event], erased);
      return erased;
    }
    const bytes = Buffer.from(JSON.stringify(what.text));
    await this.#walk(async (from, to) => {
      const found = await this.#db.query(() => this.#sql.holding.all(from, to, bytes));
      if (found.length > 0) await this.#events(found, erased);
    });
    erased.quarantined += await this.#db.write(() => this.#sql.quarantine.run(bytes).changes);
    return erased;
  }

  #events(seqs: number[], erased: { events: number; quarantined: number }): Promise<void> {
    return this.#db.write(() => {
      for (const seq of seqs) {
        erased.events += this.#sql.event.run(seq).changes;
        erased.quarantined += this.#sql.contradictions.run(seq).changes;
        this.#sql.tasks.run(seq);
        this.#sql.attempts.run(seq);
      }
    });
  }
}
