// Registers the handlers of the present files. A broken or missing handler keeps its position and its tasks. If several
// instances run, a handler is loaded if one of them has loaded it.
import type { Change } from './sql.ts';
import type { HandlerFile } from './work.ts';

/** The ids of the handlers that other processes have loaded. */
const LOADED = `select cast(h.value as bigint) from boots b cross join json_each(b.handlers) h where b.id <> @boot`;
/** A broken file cannot say its handler's name, so the path is tried first. */
const KNOWN = `select id from handlers where name = @name or (file = @file and @isBroken = 1)
  order by file = @file desc, state = 'missing' limit 1`;
const ADD = `insert into handlers (id, name, file, state, position) select coalesce(max(id), 0) + 1, @name, @file,
  'missing', coalesce((select cast(value as bigint) from state where name = 'first'), @newest) from handlers returning id`;
const SET = `update handlers set fault = @fault, file = @file, state = @state
  where id = @id and (@state = 'loaded' or id not in (${LOADED}))`;
/** Its last sign may be from before a long set-up. So it takes the newest: that of a process that could judge it. */
const LOAD = `update boots set handlers = @loaded, seen_at = (select max(seen_at) from boots) where id = @boot`;
const MISS = `update handlers set state = 'missing', fault = null
  where id not in (${LOADED}) and id not in (select cast(value as bigint) from json_each(@there))`;

/** Resolves with the ids of those that are loaded, by name. `boot`: that of their process. */
export async function register(
  tx: Change,
  files: HandlerFile[],
  newest: number,
  boot = 0,
): Promise<Map<string, number>> {
  await tx.lock('handlers');
  const ids = new Map<string, number>();
  const there: number[] = [];
  for (const { name, file, fault } of files) {
    const known = await tx.get<{ id: number }>(KNOWN, { name, file, isBroken: Number(fault !== null) });
    const { id = 0 } = known ?? (await tx.get<{ id: number }>(ADD, { name, file, newest })) ?? {};
    there.push(id);
    if (fault === null) ids.set(name, id);
    await tx.run(SET, { id, file, fault, state: fault === null ? 'loaded' : 'broken', boot });
  }
  await tx.run(LOAD, { boot, loaded: JSON.stringify([...ids.values()]) });
  await tx.run(MISS, { boot, there: JSON.stringify(there) });
  await tx.run("delete from state where name = 'first'");
  return ids;
}

/** Handlers that no process has loaded are missing. */
export async function missLost(tx: Change): Promise<void> {
  await tx.run(`${MISS} and state = 'loaded'`, { boot: 0, there: '[]' });
}
