// Creates `ctx.service` with its share of the account's calls. Without a key, every call fails and names what to set.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { createPace } from './pace.ts';
import { createService, endingWith, noService, type Service } from './service.ts';

/** The calls per minute that an account may make (contract 8). Reconciliation takes a part of them. */
const ACCOUNT_CALLS = 120;

export function serviceOf({ config, clock, log }: { config: Config; clock: Clock; log: Logger }) {
  const service =
    config.API_BASE_URL && config.API_KEY
      ? createService({
          baseUrl: config.API_BASE_URL,
          apiKey: config.API_KEY,
          paid: config.PAID_OPERATIONS === 'allow',
          pace: createPace({ callsPerMinute: Math.max(1, ACCOUNT_CALLS - config.RECONCILE_CALLS_PER_MINUTE), clock }),
          onOdd: (odd) => log.warn(odd, 'an answer of the service does not fit its shape; passed on unchanged'),
        })
      : noService;
  return (ends: AbortSignal): Service => endingWith(service, ends);
}
