// The objects that all parts of the ops port share.
import type { Store } from '../store/store.ts';
import type { Router } from '@koa/router';
import type { Jobs } from '../admin/jobs.ts';
import type { Config } from '../config.ts';
import type { AlarmRules, Keep } from '../keep/module.ts';
import type { Access } from './access.ts';
import type { WrongTokens } from './wrong-tokens.ts';

export interface OpsContext extends Pick<Keep, 'clock' | 'log' | 'disk'> {
  router: Router;
  access: Access;
  wrongTokens: WrongTokens;
  store: Pick<Store, 'read' | 'admin' | 'state' | 'replay'>;
  /** Reads status and counters for display. If the store fails, it returns the values read last: see keep/view.ts. */
  view: Keep['view'];
  /** The rules of all registered alarms. */
  rules: AlarmRules;
  jobs: Jobs;
  config: Pick<Config, 'RETENTION_DAYS' | 'RUN_CONCURRENCY'>;
  /** Called after events or tasks were changed by hand. */
  onChange: () => void;
}
