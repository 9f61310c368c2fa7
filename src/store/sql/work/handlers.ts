// The handlers that the store knows: loaded, gone, or waiting, because their file is broken or another instance may have
// them. A waiting handler gets its missed tasks when it is back. A new handler starts at the current event.
import { mayBeBroken } from '../../missed.ts';
import { keptOf } from '../../state.ts';
import type { HandlerFiles } from '../../work.ts';
import type { Session } from '../session.ts';

interface HandlerRow {
  id: number;
  name: string;
  loaded: number;
  file: string | null;
  waits_from: number | null;
  may_return: number;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createHandlers(session: Session) {
  const { statement, dialect } = session;
  const listed = dialect.oneOf('@ids', 'bigint');
  const all = statement<HandlerRow>(`
    select id, name, loaded, file, waits_from, case when ${dialect.mayReturn} then 1 else 0 end as may_return from handlers`);
  const named = statement<{ id: number; name: string }>(
    `select id, name from handlers where name ${dialect.oneOf('?', 'text')}`,
  );
  // Without `on conflict`, which uses up an id for each known handler: there are only 4096.
  const add = session.insertAll({ into: 'handlers', columns: { name: 'text', loaded: 'bigint', file: 'text' } });
  const load = statement(`update handlers set loaded = 1 where id ${listed}`);
  const setFile = statement('update handlers set file = ? where id = ?');
  const unload = statement(`update handlers set loaded = 0, waits_from = null where id ${listed}`);
  const suspend = statement(
    `update handlers set loaded = 0, waits_from = coalesce(waits_from, @fannedOut) where id ${listed}`,
  );
  const behind = statement<{ id: number; waits_from: number }>(
    'select id, waits_from from handlers where waits_from is not null and loaded = 1',
  );
  const forgetOwed = statement('delete from owed where handler in (select id from handlers where waits_from is null)');
  const moveOn = statement('update handlers set waits_from = ? where id = ? and waits_from = ?');
  const waiting = statement<{ name: string; file: string | null; since: number | null }>(`
    select name, file, (select received_at from events where seq > waits_from order by seq limit 1) as since
    from handlers where waits_from is not null and loaded = 0 order by name`);

  /** Kept in memory, because the name of a handler never changes. */
  let cached = new Map<number, string>();

  async function idsOf(names: string[]): Promise<Map<string, number>> {
    return new Map((await named.all(names)).map(({ id, name }) => [name, id]));
  }

  async function namesOf(ids: number[]): Promise<(id: number) => string> {
    if (ids.some((id) => !cached.has(id))) cached = new Map((await all.all()).map(({ id, name }) => [id, name]));
    return (id) => cached.get(id) ?? '';
  }

  async function unpausedNames(names: string[]): Promise<string[]> {
    const paused = keptOf('paused', await session.state('paused'));
    return names.filter((name) => !Object.hasOwn(paused, '*') && !Object.hasOwn(paused, name));
  }

  async function loadAll(names: string[], known: HandlerRow[], { of }: HandlerFiles): Promise<void> {
    const rows = known.filter(({ name }) => names.includes(name));
    await load.run({ ids: rows.map(({ id }) => id) });
    for (const { id, name, file } of rows) {
      const from = of.get(name) ?? file;
      if (from !== file) await setFile.run(from, id);
    }
    const added = new Set(names).difference(new Set(rows.map(({ name }) => name)));
    await add([...added].map((name) => [name, 1, of.get(name) ?? null]));
  }

  return {
    register: (names: string[], files: HandlerFiles = { of: new Map(), broken: [] }): Promise<Map<string, number>> =>
      session.write(async () => {
        const known = await all.all();
        const fannedOut = Number(await session.state('fanned_out'));
        const gone = known.filter(({ name }) => !names.includes(name));
        const waits = (row: HandlerRow): boolean =>
          (row.loaded === 1 || row.waits_from !== null) &&
          ((row.may_return === 1 && session.instance() > 0) || mayBeBroken(row, known, files));
        const idsWhere = (is: boolean): number[] => gone.flatMap((row) => (waits(row) === is ? [row.id] : []));
        await suspend.run({ ids: idsWhere(true), fannedOut });
        await unload.run({ ids: idsWhere(false) });
        await loadAll(names, known, files);
        await forgetOwed.run();
        return idsOf(names);
      }, 'work'),
    idsOf,
    namesOf,
    unpausedNames,
    async unpaused(ids: number[]): Promise<number[]> {
      const nameOf = await namesOf(ids);
      const names = new Set(await unpausedNames(ids.map(nameOf)));
      return ids.filter((id) => names.has(nameOf(id)));
    },
    behind: async (): Promise<Map<number, number>> =>
      new Map((await behind.all()).map(({ id, waits_from: from }) => [id, from])),
    /** False: another process has already moved the position of this handler. */
    moveOn: async (id: number, from: number, to: number | null): Promise<boolean> =>
      (await moveOn.run(to, id, from)) === 1,
    waiting: () => waiting.all(),
  };
}
