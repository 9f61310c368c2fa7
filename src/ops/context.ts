// The objects that all parts of the ops port share.
import type { Store } from '../store/store.ts';
import type { Router } from '@koa/router';
import type { Jobs } from '../admin/jobs.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { AlarmRules } from '../keep/module.ts';
import type { ReadStore } from '../store/read.ts';
import type { Disk } from '../store/site.ts';
import type { Access } from './access.ts';
import type { WrongTokens } from './wrong-tokens.ts';

export interface OpsContext {
  router: Router;
  access: Access;
  wrongTokens: WrongTokens;
  store: Pick<Store, 'read' | 'admin' | 'state' | 'replay'>;
  /** Reads status and counters for display. If the store fails, it returns the values read last: see keep/view.ts. */
  view: Pick<ReadStore, 'status' | 'counters'>;
  /** The rules of all registered alarms. */
  rules: AlarmRules;
  clock: Clock;
  log: Logger;
  jobs: Jobs;
  disk: () => Promise<Disk>;
  config: Pick<Config, 'RETENTION_DAYS' | 'RUN_CONCURRENCY'>;
  /** Called after events or tasks were changed by hand. */
  onChange: () => void;
}
