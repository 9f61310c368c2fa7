// A kit beside the simulator, which delivers events and also shows them by replay. Whatever a fault loses, in the end
// every event must be stored once and completed once.
import { createSimulatedService, type SimulatedService } from '../../../src/tools/simulator/service.ts';
import type { Webhook } from '../../../src/tools/simulator/webhook.ts';
import { RECORD, SECRET } from '../../system/kit.ts';
import { eventually, stage, type Found, type Scene, type SceneOptions } from './scene.ts';

export interface Account {
  simulator: SimulatedService;
  webhook: Webhook;
  /** Makes events and starts their deliveries. Nothing is delivered while the webhook is disabled. */
  happen: (count: number) => void;
  /** Resolves to true when every event is stored, to false after the limit. */
  whole: (limitMs?: number) => Promise<boolean>;
}

const QUICK = { RECONCILE_INTERVAL_SECONDS: '1', RECONCILE_CALLS_PER_MINUTE: '119' };

export async function withAccount(
  seed: number,
  options: SceneOptions,
  play: (scene: Scene, account: Account) => Promise<string>,
): Promise<Found> {
  const simulator = createSimulatedService({
    seed,
    speed: 30,
    sessions: 2,
    conversations: 5,
    addresses: { loopback: true },
  });
  const { key, secret: apiKey } = simulator.keys.create({ name: 'faults', scopes: ['events:read'], validDays: null });
  const baseUrl = await simulator.listen();
  const env = { ...QUICK, API_BASE_URL: baseUrl, API_KEY: apiKey, ...options.env };
  try {
    return await stage({ handlers: { record: RECORD }, ...options, env }, async (scene) => {
      const { kit } = scene;
      const url = `http://127.0.0.1:${kit.port}/webhooks`;
      const { webhook } = await simulator.webhooks.register(key, { url, secret: SECRET, events: ['MessageReceived'] });
      const missing = (): number => {
        const rows = kit.query<{ cursor: string }>('select cast(cursor as text) as cursor from events');
        const stored = new Set(rows.map(({ cursor }) => cursor));
        return simulator.history.all().filter(({ cursor }) => !stored.has(cursor ?? '')).length;
      };
      const account: Account = {
        simulator,
        webhook,
        happen: (count) => void simulator.happen(count, 'MessageReceived'),
        whole: (limitMs = 30_000) => eventually(() => missing() === 0, limitMs),
      };
      const seen = await play(scene, account);
      scene.holds(await account.whole(), `${missing()} events are missing in the end`);
      return `${seen}; ${simulator.history.all().length} happened`;
    });
  } finally {
    await simulator.close();
  }
}

/** Waits until replay has set the watermark, and resolves to it. Replay needs a first delivery to begin at. */
export async function watermarkOf({ kit }: Scene): Promise<string | null> {
  const sql = `select cast(value as text) as value from state where name = 'watermark'`;
  await eventually(() => kit.query<{ value: string | null }>(sql)[0]?.value != null);
  return kit.query<{ value: string | null }>(sql)[0]?.value ?? null;
}
