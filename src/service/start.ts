// What `ctx.service` is: a client with its share of the account's calls, or, without a key, one that says so.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { createPace } from './pace.ts';
import { createService, endingWith, noService, type Service } from './service.ts';

/** Calls a minute of the whole account (contract 8); reconciliation has its own part of them. */
const ACCOUNT_CALLS = 120;

export function serviceOf({ config, clock, log }: { config: Config; clock: Clock; log: Logger }) {
  const service =
    config.API_BASE_URL && config.API_KEY
      ? createService({
          baseUrl: config.API_BASE_URL,
          apiKey: config.API_KEY,
          paid: config.PAID_OPERATIONS === 'allow',
          pace: createPace({ callsPerMinute: Math.max(1, ACCOUNT_CALLS - config.RECONCILE_CALLS_PER_MINUTE), clock }),
          onOdd: (odd) => log.warn(odd, 'an answer of the service does not fit its shape; handed over as it came'),
        })
      : noService;
  return (ends: AbortSignal): Service => endingWith(service, ends);
}
