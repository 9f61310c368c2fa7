// Makes a backup each day, if BACKUP_DIR is set. After a failure it tries again each hour.
import { describe } from '../base/errors.ts';
import { backupOf, DAY_MS, HOUR_MS, MINUTE_MS } from '../operations/judge.ts';
import { copyStore } from '../operations/store/copy.ts';
import { readFacts } from '../operations/store/facts.ts';
import { tell } from '../operations/store/open.ts';
import type { Keep, Step } from './keep.ts';

export function createBackups({ db, config, log }: Keep): Step {
  const { BACKUP_DIR: folder, storePath } = config;
  let failedAt = -Infinity;
  return async () => {
    const last = backupOf(await readFacts(db));
    if (folder === undefined || storePath === null) {
      if (last) await tell(db, 'backup', null);
      return Infinity;
    }
    const now = db.clock.now();
    const isFresh = last?.error === null && Math.abs(now - last.at) < DAY_MS;
    if (isFresh || db.clock.monotonic() - failedAt < HOUR_MS) return MINUTE_MS;
    try {
      const file = await copyStore(storePath, folder, now);
      await tell(db, 'backup', { at: now, error: null });
      log.info({ file }, 'a backup was written and verified');
    } catch (error) {
      failedAt = db.clock.monotonic();
      const { message } = describe(error);
      await tell(db, 'backup', { at: now, ...last, error: message });
      log.warn({ why: message }, 'no backup was written: trying again in an hour');
    }
    return MINUTE_MS;
  };
}
