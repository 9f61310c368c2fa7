// Creates `ctx.service` with its share of the calls. Without a key, every call fails and names what to set.
import type { Config } from '../config.ts';
import { createCallLimit, type CallLimitOptions } from './call-limit.ts';
import { createPace } from './pace.ts';
import { createService, endingWith, noService, type Service } from './service.ts';

export function serviceOf({ config, store, clock, log }: Omit<CallLimitOptions, 'all'> & { config: Config }) {
  const all = config.API_CALLS_PER_MINUTE;
  const callLimit = createCallLimit({ all, store, clock, log });
  const service =
    config.API_BASE_URL && config.API_KEY
      ? createService({
          baseUrl: config.API_BASE_URL,
          apiKey: config.API_KEY,
          fetch: callLimit.fetch,
          paid: config.PAID_OPERATIONS === 'allow',
          pace: createPace({ callsPerMinute: all - config.RECONCILE_CALLS_PER_MINUTE, clock, callLimit }),
          onOdd: (odd) => log.warn(odd, 'an answer of the service does not fit its shape; passed on unchanged'),
        })
      : noService;
  return (ends: AbortSignal): Service => endingWith(service, ends);
}
