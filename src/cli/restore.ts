// Puts a backup in the store's place while no kit runs. The old store stays beside it.
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { iso } from '../base/clock.ts';
import { describe, orUndefined } from '../base/errors.ts';
import { define, Refused } from '../operations/define.ts';
import { verify } from '../operations/store/copy.ts';
import { Db } from '../store/sqlite/database.ts';
import { lockBeside } from '../store/sqlite/open.ts';

export const restore = define({
  name: 'restore',
  about: 'puts a backup in the place of the store; the kit must be stopped',
  args: z.object({ file: z.string().min(1) }),
  first: ['file'],
  access: 'change',
  async run({ config, clock }, { file }) {
    process.umask(0o077);
    const backup = resolve(file);
    const { storePath: store } = config();
    if (store === null) throw new Refused('restore a store on PostgreSQL with its own tools, like pg_restore');
    if (!existsSync(backup)) throw new Refused(`there is no file ${backup}`);
    const lock = lockBeside(store);
    // While this file exists, no kit starts.
    const fresh = `${store}-restoring`;
    const old = `${store}.before-${(iso(clock.now()) ?? '').slice(0, 19).replaceAll(':', '-')}`;
    copy(backup, fresh);
    if (existsSync(store) && orUndefined(() => copy(store, old)) === undefined)
      for (const suffix of ['', '-wal'])
        if (existsSync(`${store}${suffix}`)) copyFileSync(`${store}${suffix}`, `${old}${suffix}`);
    for (const suffix of ['-wal', '-shm']) rmSync(`${store}${suffix}`, { force: true });
    // For an hour, the headline says that the store was restored.
    const db = new Db(fresh, {});
    db.raw.prepare("insert or replace into state values ('restored_at', ?)").run(clock.now());
    db.close();
    renameSync(fresh, store);
    lock.close();
    const words =
      'Pauses since the backup are undone: repeat them now, with npx kit pause. Then start the kit: replay fetches what came since the backup, and handlers run on it again. When that is done, repeat the erasures since the backup';
    return { store, old: existsSync(old) ? old : null, words };
  },
});

/** Copies a store and its WAL into one file. If it throws Refused, there is no copy. */
function copy(from: string, to: string): true {
  rmSync(to, { force: true });
  try {
    const db = new Db(from, { readonly: true });
    db.raw.prepare('vacuum into ?').run(to);
    db.close();
    verify(to);
    return true;
  } catch (error) {
    rmSync(to, { force: true });
    throw new Refused(`${from}: ${describe(error).message}`);
  }
}
