// Puts a backup in the store's place while no kit runs. The old store stays beside it.
import { copyFileSync, existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { iso } from '../base/clock.ts';
import { orUndefined } from '../base/errors.ts';
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
    const backup = resolve(file);
    const { storePath: store } = config();
    if (!existsSync(backup)) throw new Refused(`there is no file ${backup}`);
    const lock = lockBeside(store);
    const fresh = `${store}-restoring`;
    const old = `${store}.before-${(iso(clock.now()) ?? '').slice(0, 19).replaceAll(':', '-')}`;
    try {
      copyFileSync(backup, fresh);
      verify(fresh);
      // One file then holds the old store, if it is sound.
      if (existsSync(store)) orUndefined(() => emptyLog(store));
      if (existsSync(store)) linkSync(store, old);
      for (const suffix of ['-wal', '-shm'])
        if (existsSync(`${store}${suffix}`)) renameSync(`${store}${suffix}`, `${old}${suffix}`);
      renameSync(fresh, store);
    } finally {
      rmSync(fresh, { force: true });
      lock.close();
    }
    return {
      store,
      old: existsSync(old) ? old : null,
      words:
        'Start the kit: replay fetches what came since, and handlers run on it again. What was erased or paused since the backup is so no more',
    };
  },
});

function emptyLog(store: string): void {
  const db = new Db(store, { readonly: false });
  db.raw.pragma('wal_checkpoint(truncate)');
  db.close();
}
