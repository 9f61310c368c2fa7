// Registers the handlers of the present files. A broken or missing handler keeps its position and its tasks.
import type { HandlerFile, WorkStore } from '../work.ts';
import type { Db } from './database.ts';

export function createRegister(db: Db): Pick<WorkStore, 'register'> {
  const named = db.value<number>('select id from handlers where name = ?');
  const inFile = db.value<number>("select id from handlers where file = ? order by state = 'missing' limit 1");
  const miss = db.sql(`update handlers set state = 'missing', fault = null
    where id not in (select value from json_each(?))`);
  const add = db.value<number>(`insert into handlers (name, file, state, fault, position) values (?, ?, 'missing', null,
      coalesce((select value from state where name = 'first'), ?)) returning id`);
  const set = db.sql('update handlers set file = ?, state = ?, fault = ? where id = ?');

  return {
    register: (files: HandlerFile[], newest: number) =>
      db.write(() => {
        const ids = new Map<string, number>();
        const there: number[] = [];
        for (const { name, file, fault } of files) {
          // A broken file cannot say its handler's name, so the path is tried first.
          const known = fault === null ? named.get(name) : (inFile.get(file) ?? named.get(name));
          const id = known ?? add.get(name, file, newest) ?? 0;
          there.push(id);
          set.run(file, fault === null ? 'loaded' : 'broken', fault, id);
          if (fault === null) ids.set(name, id);
        }
        miss.run(JSON.stringify(there));
        db.raw.exec("delete from state where name = 'first'");
        return ids;
      }),
  };
}
