// A kit beside the service's double, which delivers what happens and shows it again: whatever was lost or missed has to be
// there in the end, once and completed once.
import { createSimulatedService, type SimulatedService } from '../../../src/tools/simulator/service.ts';
import type { Webhook } from '../../../src/tools/simulator/webhook.ts';
import { RECORD, SECRET } from '../../system/kit.ts';
import { eventually, stage, type Found, type Scene, type SceneOptions } from './scene.ts';

export interface Account {
  double: SimulatedService;
  webhook: Webhook;
  /** So many events happen and are delivered, unless the webhook is off. */
  happen: (count: number) => void;
  /** Resolves once all that happened is stored; false where it takes too long. */
  whole: (limitMs?: number) => Promise<boolean>;
}

const QUICK = { RECONCILE_INTERVAL_SECONDS: '1', RECONCILE_CALLS_PER_MINUTE: '120' };

export async function withAccount(
  seed: number,
  options: SceneOptions,
  play: (scene: Scene, account: Account) => Promise<string>,
): Promise<Found> {
  const double = createSimulatedService({
    seed,
    speed: 30,
    sessions: 2,
    conversations: 5,
    addresses: { loopback: true },
  });
  const { key, secret: apiKey } = double.keys.create({ name: 'faults', scopes: ['events:read'], validDays: null });
  const baseUrl = await double.listen();
  const env = { ...QUICK, API_BASE_URL: baseUrl, API_KEY: apiKey, ...options.env };
  try {
    return await stage({ handlers: { record: RECORD }, ...options, env }, async (scene) => {
      const { kit } = scene;
      const url = `http://127.0.0.1:${kit.port}/webhooks`;
      const { webhook } = await double.webhooks.register(key, { url, secret: SECRET, events: ['MessageReceived'] });
      const missing = (): number => {
        const rows = kit.query<{ cursor: string }>('select cast(cursor as text) as cursor from events');
        const stored = new Set(rows.map(({ cursor }) => cursor));
        return double.history.all().filter(({ cursor }) => !stored.has(cursor ?? '')).length;
      };
      const account: Account = {
        double,
        webhook,
        happen: (count) => void double.happen(count, 'MessageReceived'),
        whole: (limitMs = 30_000) => eventually(() => missing() === 0, limitMs),
      };
      const seen = await play(scene, account);
      scene.holds(await account.whole(), `${missing()} events are missing in the end`);
      return `${seen}; ${double.history.all().length} happened`;
    });
  } finally {
    await double.close();
  }
}

/** Until replay has shown what a first delivery began with. */
export async function watermarkOf({ kit }: Scene): Promise<string | null> {
  const sql = `select cast(value as text) as value from state where name = 'watermark'`;
  await eventually(() => kit.query<{ value: string | null }>(sql)[0]?.value != null);
  return kit.query<{ value: string | null }>(sql)[0]?.value ?? null;
}
