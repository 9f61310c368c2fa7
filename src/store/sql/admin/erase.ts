// Erases a person's data, in steps. The identity and the outcome of the events stay.
import type { AdminStore, Erased, IsTheirs } from '../../admin.ts';
import { HANDLERS, createMarkDirty } from '../work/waiting.ts';
import type { Session } from '../session.ts';

interface Options {
  /** Keeps the disk free of traces of the data. It comes before each step, and with `last` after the last one. */
  shred: (last: boolean) => Promise<void>;
}

export function createErase(session: Session, { shred }: Options): Pick<AdminStore, 'eraseEvents' | 'eraseAsides'> {
  const { dialect } = session;
  const markDirty = createMarkDirty(session);
  const listed = dialect.oneOf('@ids', 'bigint');
  const events = session.statement<{ seq: number; body: Uint8Array | null }>(
    'select seq, body from events where seq > ? order by seq limit ?',
  );
  const purge = session.statement(`update events set body = null where seq ${listed}`);
  // The ids of all tasks that the events can have. A join by ranges of ids would be slow in PostgreSQL.
  const theirTask = `in (select e.seq * ${HANDLERS} + h.id from events e cross join handlers h where e.seq ${listed})`;
  // Waiting tasks become skipped, because the event has no body left. Running tasks end normally.
  const skip = session.value<string>(`
    update tasks set state = 'skipped', error = 'erased', changed_at = @now where id ${theirTask} and state = 'ready'
      and not exists (select 1 from claims where task = tasks.id)
    returning (select name from handlers where id = tasks.handler)`);
  // Errors of handlers may quote the event.
  const quiet = session.statement(`update tasks set error = 'erased' where id ${theirTask} and error is not null`);
  // All attempts of the event, because attempts may exist without their task after a rerun or a move.
  const quietAttempts = session.statement(
    `update attempts set error = 'erased' where task ${theirTask} and error is not null`,
  );
  const forgetNotes = session.statement(`delete from notes where task ${theirTask}`);
  const lanesOf = session.statement<{ id: number; name: string }>(`
    select id, name from lanes where name in (
      select name from lanes where id in (select lane from tasks where id ${theirTask}))`);
  const nameless = session.statement(`update lanes set name = 'erased ' || id where id ${listed}`);
  type Aside = { id: number; body: Uint8Array };
  const asides = {
    quarantine: session.statement<Aside>('select id, body from quarantine'),
    conflicts: session.statement<Aside>('select id, body from conflicts'),
  };
  const removeAsides = {
    quarantine: session.statement(`delete from quarantine where id ${listed}`),
    conflicts: session.statement(`delete from conflicts where id ${listed}`),
  };

  async function erase(ids: number[], isTheirs: IsTheirs, now: number): Promise<Pick<Erased, 'skipped' | 'errors'>> {
    await purge.run({ ids });
    const handlers = await skip.all({ ids, now });
    const skipped = handlers.length;
    const errors = await quiet.run({ ids });
    await quietAttempts.run({ ids });
    await forgetNotes.run({ ids });
    const waiting = [...Map.groupBy(handlers, (name) => name)].map(([name, { length }]) => [
      `waiting.${name}`,
      -length,
    ]);
    await session.count({ 'tasks.ready': -skipped, 'tasks.skipped': skipped, ...Object.fromEntries(waiting) });
    const lanes = await lanesOf.all({ ids });
    // The name of a lane may hold the person's address. The lane itself stays, because it keeps the order.
    const named = lanes.filter(({ name }) => isTheirs(Buffer.from(JSON.stringify(name.split('/')))));
    if (named.length > 0) await nameless.run({ ids: named.map(({ id }) => id) });
    // What was claimed and has not begun goes back, and is skipped then.
    await markDirty(lanes.map(({ id }) => id));
    return { skipped, errors };
  }

  return {
    async eraseEvents(isTheirs, after, limit, now, dry) {
      await shred(false);
      const work = async () => {
        const rows = await events.all(after, limit);
        const theirs = rows.filter(({ body }) => body !== null && isTheirs(body)).map(({ seq }) => seq);
        const erased: Erased = { events: theirs.length, skipped: 0, errors: 0, quarantined: 0, conflicts: 0 };
        if (!dry && theirs.length > 0) {
          Object.assign(erased, await erase(theirs, isTheirs, now));
          await session.increment('erased');
        }
        return { erased, next: rows.length === limit ? (rows.at(-1)?.seq ?? null) : null };
      };
      const step = await session.write(work, 'work', 'door');
      if (step.next === null && !dry) await shred(true);
      return step;
    },
    async eraseAsides(isTheirs, dry) {
      await shred(false);
      return session.write(async () => {
        const count = async (table: keyof typeof asides): Promise<number> => {
          const theirs = (await asides[table].all()).filter(({ body }) => isTheirs(body));
          if (!dry && theirs.length > 0) await removeAsides[table].run({ ids: theirs.map(({ id }) => id) });
          return theirs.length;
        };
        const quarantined = await count('quarantine');
        const conflicts = await count('conflicts');
        if (!dry) await session.count({ quarantined: -quarantined });
        return { events: 0, skipped: 0, errors: 0, quarantined, conflicts };
      }, 'door');
    },
  };
}
