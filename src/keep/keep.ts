// What most parts of `keep` get. A step returns the milliseconds until it runs again.
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { PeopleStore } from '../operations/store/open.ts';

export interface Keep {
  db: PeopleStore;
  config: Pick<Config, 'storePath' | 'RETENTION_DAYS' | 'BACKUP_DIR' | 'ALERT_URL'>;
  log: Logger;
}

export type Step = () => Promise<number>;
