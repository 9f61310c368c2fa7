// Erases a person's data, in steps. The identity and the outcome of the events stay.
import type { AdminStore, Erased, IsTheirs } from '../../admin.ts';
import { HANDLERS, createMarkDirty } from '../work/waiting.ts';
import type { Session, Sync } from '../session.ts';

export function createErase(session: Session): Sync<Pick<AdminStore, 'eraseEvents' | 'eraseAsides'>> {
  const { db } = session;
  const markDirty = createMarkDirty(session);
  const events = db.prepare<unknown[], { seq: number; body: Uint8Array | null }>(
    'select seq, body from events where seq > ? order by seq limit ?',
  );
  const purge = db.prepare('update events set body = null where seq = ?');
  // Waiting tasks become skipped, because the event has no body left. Running tasks end normally.
  const skip = db.prepare(`
    update tasks set state = 'skipped', error = 'erased', changed_at = @now where id between @from and @to and state = 'ready'
      and not exists (select 1 from claims where task = tasks.id)`);
  // Errors of handlers may quote the event.
  const quiet = db.prepare(`update tasks set error = 'erased' where id between @from and @to and error is not null`);
  // All attempts of the event, because attempts may exist without their task after a rerun or a move.
  const quietAttempts = db.prepare(
    `update attempts set error = 'erased' where task between @from and @to and error is not null`,
  );
  const forgetNotes = db.prepare('delete from notes where task between @from and @to');
  const lanesOf = db.prepare<unknown[], { id: number; name: string }>(`
    select id, name from lanes where name in (
      select name from lanes where id in (select lane from tasks where id between ? and ?))`);
  const nameless = db.prepare(`update lanes set name = 'erased ' || id where id = ?`);
  const asides = {
    quarantine: db.prepare<[], { id: number; body: Uint8Array }>('select id, body from quarantine'),
    conflicts: db.prepare<[], { id: number; body: Uint8Array }>('select id, body from conflicts'),
  };
  const removeAside = {
    quarantine: db.prepare('delete from quarantine where id = ?'),
    conflicts: db.prepare('delete from conflicts where id = ?'),
  };

  function erase(seq: number, isTheirs: IsTheirs, now: number): Pick<Erased, 'skipped' | 'errors'> {
    const range = { from: seq * HANDLERS, to: seq * HANDLERS + HANDLERS - 1 };
    purge.run(seq);
    const skipped = skip.run({ ...range, now }).changes;
    const errors = quiet.run(range).changes;
    quietAttempts.run(range);
    forgetNotes.run(range);
    session.count({ 'tasks.ready': -skipped, 'tasks.skipped': skipped });
    for (const { id, name } of lanesOf.all(range.from, range.to)) {
      // The name of a lane may hold the person's address. The lane itself stays, because it keeps the order.
      if (isTheirs(Buffer.from(JSON.stringify(name.split('/'))))) nameless.run(id);
      // What was claimed and has not begun goes back, and is skipped then.
      markDirty(id);
    }
    return { skipped, errors };
  }

  return {
    eraseEvents(isTheirs, after, limit, now, dry) {
      db.pragma('secure_delete = on');
      const step = session.write(() => {
        const erased: Erased = { events: 0, skipped: 0, errors: 0, quarantined: 0, conflicts: 0 };
        const rows = events.all(after, limit);
        for (const { seq, body } of rows) {
          if (body === null || !isTheirs(body)) continue;
          erased.events++;
          if (dry) continue;
          const { skipped, errors } = erase(seq, isTheirs, now);
          erased.skipped += skipped;
          erased.errors += errors;
        }
        if (!dry && erased.events > 0) session.increment('erased');
        return { erased, next: rows.length === limit ? (rows.at(-1)?.seq ?? null) : null };
      });
      // The WAL also holds the data until it is emptied.
      if (step.next === null && !dry) db.pragma('wal_checkpoint(TRUNCATE)');
      return step;
    },
    eraseAsides(isTheirs, dry) {
      db.pragma('secure_delete = on');
      return session.write(() => {
        const count = (table: keyof typeof asides): number => {
          const theirs = asides[table].all().filter(({ body }) => isTheirs(body));
          if (!dry) for (const { id } of theirs) removeAside[table].run(id);
          return theirs.length;
        };
        const [quarantined, conflicts] = [count('quarantine'), count('conflicts')];
        if (!dry) session.count({ quarantined: -quarantined });
        return { events: 0, skipped: 0, errors: 0, quarantined, conflicts };
      });
    },
  };
}
