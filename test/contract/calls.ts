// Calls of each route, and the client as handlers have it.
import { onTestFinished } from 'vitest';
import { type Config, type Env } from '../../src/config.ts';
import { type Service } from '../../src/service/service.ts';
import { serviceOf } from '../../src/service/start.ts';
import { createClock, createTestLog, createStoreFile } from '../store-file.ts';

export const QUOTE = { quoteId: 'q-1' };
export const ENV: Env = {
  WEBHOOK_SECRET: `whsec_${'0'.repeat(32)}`,
  API_BASE_URL: 'https://api.example/v1',
  API_KEY: 'k',
};

/** One call of each route, with an answer that fits it. */
export const ROUTES: Record<Exclude<keyof Service, 'pages' | 'items'>, (service: Service) => Promise<unknown>> = {
  call: (service) => service.call('ListCrmTags', {}),
  quote: (service) => service.quote('ResumeCampaign', {}),
  send: (service) => service.send({ body: 'hi' }, QUOTE),
  media: async (service) => (await service.media('a')).body.cancel(),
  resume: (service) => Array.fromAsync(service.resume('a')),
};

/** The client as handlers have it, with the pace that all processes share. */
export function clientOf(config: Config): Service {
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const { store } = file;
  return serviceOf({ config, store, clock: createClock(), log: createTestLog().log })(new AbortController().signal);
}
