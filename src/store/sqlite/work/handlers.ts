// The handlers that the store knows: loaded, gone, or waiting because their file is broken. A waiting handler gets its
// missed tasks when it is back. A new handler starts at the current event.
import { mayBeBroken } from '../../missed.ts';
import type { HandlerFiles } from '../../work.ts';
import type { Session } from '../session.ts';

interface HandlerRow {
  id: number;
  name: string;
  loaded: number;
  file: string | null;
  waits_from: number | null;
}

export function createHandlers(session: Session) {
  const { db } = session;
  const all = db.prepare<[], HandlerRow>('select id, name, loaded, file, waits_from from handlers');
  const load = db.prepare(`
    insert into handlers (name, loaded, file) values (@name, 1, @file)
    on conflict (name) do update set loaded = 1, file = coalesce(@file, file)`);
  const unload = db.prepare('update handlers set loaded = 0, waits_from = ? where id = ?');
  const behind = db.prepare<[], { id: number; waits_from: number }>(
    'select id, waits_from from handlers where waits_from is not null and loaded = 1',
  );
  const forgetOwed = db.prepare('delete from owed where handler in (select id from handlers where waits_from is null)');
  const moveOn = db.prepare('update handlers set waits_from = ? where id = ? and waits_from = ?');
  const waiting = db.prepare<[], { name: string; file: string | null }>(
    'select name, file from handlers where waits_from is not null and loaded = 0 order by name',
  );

  function idsOf(names: string[]): Map<string, number> {
    return new Map(all.all().flatMap(({ id, name }) => (names.includes(name) ? [[name, id] as const] : [])));
  }

  return {
    register(names: string[], files: HandlerFiles = { of: new Map(), broken: [] }): Map<string, number> {
      return session.write(() => {
        const known = all.all();
        const fannedOut = Number(session.state('fanned_out'));
        for (const row of known) {
          if (names.includes(row.name)) continue;
          const waited = row.loaded === 1 || row.waits_from !== null;
          unload.run(waited && mayBeBroken(row, known, files) ? (row.waits_from ?? fannedOut) : null, row.id);
        }
        for (const name of names) load.run({ name, file: files.of.get(name) ?? null });
        forgetOwed.run();
        return idsOf(names);
      });
    },
    idsOf,
    behind: (): Map<number, number> => new Map(behind.all().map(({ id, waits_from: from }) => [id, from])),
    /** False: another process has already moved the position of this handler. */
    moveOn: (id: number, from: number, to: number | null): boolean => moveOn.run(to, id, from).changes === 1,
    waiting: () => waiting.all(),
  };
}
