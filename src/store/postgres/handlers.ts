// The handlers that there are, by their files. One is loaded if any living process has loaded it. A broken or missing one
// keeps its position and its tasks.
import type { HandlerFile } from '../work.ts';
import { lockKey, type Connections, type Tx } from './connection.ts';

/** Of this boot. A new one begins after `newest`, the first ones with the first event. */
export function register(
  db: Connections,
  boot: number,
  files: HandlerFile[],
  newest: number,
): Promise<Map<string, number>> {
  return db.write(async (tx) => {
    await tx.run(`select pg_advisory_xact_lock(${lockKey(db, 'register')}, 0)`);
    const found: { id: number; fault: string | null }[] = [];
    const ids = new Map<string, number>();
    for (const { name, file, fault } of files) {
      // A broken file cannot say its handler's name.
      const known = await tx.get<{ id: number }>(
        `select id from handlers where name = @name or (file = @file and @isBroken = 1) order by file = @file desc limit 1`,
        { name, file, isBroken: Number(fault !== null) },
      );
      const id = known?.id ?? (await add(tx, name, file, newest));
      await tx.run('update handlers set file = @file where id = @id and file <> @file', { id, file });
      found.push({ id, fault });
      if (fault === null) ids.set(name, id);
    }
    await tx.run("delete from state where name = 'first'");
    await tx.run('update boots set handlers = @found where id = @boot', { boot, found: JSON.stringify(found) });
    setStates(tx);
    return ids;
  });
}

async function add(tx: Tx, name: string, file: string, newest: number): Promise<number> {
  const row = await tx.get<{ id: number }>(
    `insert into handlers (id, name, file, state, position) select coalesce(max(id), 0) + 1, @name, @file, 'missing',
      coalesce((select cast(value as bigint) from state where name = 'first'), @newest) from handlers returning id`,
    { name, file, newest },
  );
  return row?.id ?? 0;
}

/** What the living processes have loaded is the state of the handlers. */
export function setStates(tx: Tx): void {
  tx.last(`update handlers h set state = case when v.loaded > 0 then 'loaded' when v.broken > 0 then 'broken' else 'missing' end,
      fault = case when v.loaded = 0 then v.fault end
    from (select h.id, count(f.id) filter (where f.fault is null) as loaded, count(f.fault) as broken, max(f.fault) as fault
      from handlers h left join (boots b cross join json_to_recordset(cast(b.handlers as json)) as f (id bigint, fault text))
        on f.id = h.id group by h.id) v
    where v.id = h.id and (h.state, h.fault) is distinct from
      (case when v.loaded > 0 then 'loaded' when v.broken > 0 then 'broken' else 'missing' end, case when v.loaded = 0 then v.fault end)`);
}
