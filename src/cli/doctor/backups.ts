// Checks the scheduled backups: the newest one, its folder, and whether backups of a store that was lost are there.
import { statSync } from 'node:fs';
import { createBackupFolder } from '../../backups/folder.ts';
import type { Backup } from '../../store/shown.ts';
import { withStore } from '../lib/store.ts';
import { ok, skipped, warning, type Check, type Finding } from './check.ts';

export const backups: Check = {
  name: 'backups',
  needs: ['DATABASE_URL', 'BACKUP_DIR'],
  after: ['store file'],
  async run({ config }) {
    const { BACKUP_DIR: dir, storePath } = config;
    if (dir === undefined || storePath === null) return skipped('BACKUP_DIR is not set');
    const disk = statSync(dir, { throwIfNoEntry: false })?.dev;
    if (disk === undefined)
      return warning(`there is no folder ${dir}`, 'mount it, or create it for the user of the kit');
    const [last, born] = await withStore(({ state }) => Promise.all([state.get('backup'), state.get('born')]), config);
    const ofOthers = judgeOthers(createBackupFolder(dir, storePath, born).others(), last);
    const newest = last?.file ? `the newest is ${last.file}` : 'there is none yet';
    if (last?.error) return [warning(`${last.error}; ${newest}`, 'see backup_old in src/ops/runbook.md'), ...ofOthers];
    if (disk !== statSync(storePath).dev) return [ok(newest), ...ofOthers];
    const found = `${newest}, on the disk of the store: it does not survive that disk`;
    return [warning(found, 'send backups elsewhere, see src/processes/README.md'), ...ofOthers];
  },
};

/** Copies that are newer or larger than the last one of this store may be all that is left of a store that was lost. */
function judgeOthers(files: string[], last: Backup | null): Finding[] {
  const copies = files.map((file) => ({ file, is: statSync(file) })).toSorted((a, b) => a.is.mtimeMs - b.is.mtimeMs);
  const found = copies.findLast(({ is }) => is.mtimeMs > (last?.verifiedAt ?? 0) || is.size > (last?.bytes ?? 0));
  if (!found) return [];
  const remedy = `if this store was lost, npx kit restore ${found.file}; else give each kit a BACKUP_DIR of its own`;
  return [warning("another store's backups are there, and newer or larger", remedy)];
}
