// Alarms about the store and its disk.
import { iso } from '../../base/clock.ts';
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';
import type { WriteTrouble } from '../../receive/store-watch.ts';
import type { Observation } from './observation.ts';
import { magnitude, switchedOff, type Rules } from './rule.ts';

const MB = 1024 * 1024;
/** Each limit that the free space falls below raises the level by one. */
const FREE_MB = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];
const DISK_LOW_MB = 512;
/** The alarm ends only above this limit, so that free space around DISK_LOW_MB does not raise it again and again. */
const DISK_WELL_MB = 640;

/** Rules that the main process evaluates while its own writes to the store fail. */
export const WRITES: Rules<WriteTrouble> = {
  store_unwritable: {
    gravity: 'critical',
    deliveries: 'uncommitted',
    remedy:
      'Make room on the disk, or end what holds its lock: the alarm names the cause. Deliveries get 503, and at 15 in a row the webhook is switched off.',
    fires: ({ code }) => code !== 'replaced',
    level: ({ refused }) => 1 + magnitude(refused),
    // The number of different codes, so that only a new code is posted: on a full disk, two codes alternate.
    news: ({ codes }) => codes,
    words: ({ code, since, refused, waiting, failureRun, writer, recovers, remedy: known }) => {
      const holder = writer === undefined ? '' : ` by process ${writer}`;
      const remedy =
        code === 'locked' ? 'End the process that holds the lock: a copy, a SQLite shell, a handler that spins' : known;
      return `nothing can be written to the store since ${iso(since)} (${code}${holder}): ${waiting} deliveries wait, ${refused} were answered with 503${switchedOff(failureRun, recovers)}. ${remedy}. The service retries these deliveries`;
    },
  },
  store_replaced: {
    gravity: 'critical',
    deliveries: 'uncommitted',
    remedy: 'Stop the kit, npx kit restore with the file that is meant, and start it again.',
    fires: ({ code }) => code === 'replaced',
    words: ({ since, message }) =>
      `another file is in the place of the store since ${iso(since)}: nothing is stored, and deliveries get 503. ${message}. If a file .replaced-… is beside the store, it holds what was accepted until then, and restore takes it. The service retries these deliveries`,
  },
};

/** Rules that `keep` evaluates. */
export const DISK: Rules<Observation> = {
  disk_low: {
    gravity: 'critical',
    remedy: 'Make room: at zero, deliveries get 503, and the webhook is switched off.',
    fires: (seen) => {
      const wasLow = seen.status.alarms.some(({ name }) => name === 'disk_low');
      return freeMb(seen) < (wasLow ? DISK_WELL_MB : DISK_LOW_MB);
    },
    level: (seen) => FREE_MB.filter((limit) => freeMb(seen) < limit).length,
    words: (seen) =>
      `${freeMb(seen) === 0 ? 'nothing is' : `${freeMb(seen)} MB are`} left on the disk of the store (DATABASE_URL): make room until ${DISK_WELL_MB} MB are free, see df -h. Without room deliveries get 503, and at ${FAILURES_ALLOWED} in a row the service switches the webhook off; the service retries these deliveries`,
  },
};

/** Rules about the copies of the store that `keep` writes. */
export const BACKUPS: Rules<Observation> = {
  backup_old: {
    gravity: 'warning',
    remedy: 'Make room in BACKUP_DIR, mount it, or give it to the user of the kit: the alarm names the cause.',
    fires: ({ backups }) => backups !== null && (isOld(backups) || (backups.last?.failures ?? 0) >= 2),
    level: ({ backups }) => magnitude((backups?.ageMs ?? 0) / (backups?.dueMs ?? 1)),
    words: ({ backups }) => {
      const { verifiedAt = null, file = null, error = null } = backups?.last ?? {};
      const newest =
        verifiedAt === null ? 'there is no backup yet' : `the newest backup is of ${iso(verifiedAt)} (${file})`;
      return `${newest}. ${error ?? 'None has ended since: see the log, and that keep runs (npx kit status)'}. It is tried again within an hour; npx kit backup FILE writes one now`;
    },
  },
};

function isOld({ ageMs, dueMs }: NonNullable<Observation['backups']>): boolean {
  return ageMs > dueMs;
}

function freeMb({ freeBytes }: Observation): number {
  return Math.floor(freeBytes / MB);
}
