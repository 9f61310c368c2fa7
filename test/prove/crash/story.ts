// The run that a campaign kills. A simulator with a seed delivers some events once, some twice, and leaves some to
// replay. The kit runs as processes. Its handler writes a row, the effect, together with the task's completion. A story
// continues over any number of starts.
import { join } from 'node:path';
import { createRandom } from '../../../src/tools/random.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';
import { createKit, SECRET, until, type Kit } from '../../system/kit.ts';
import { countsIn, violationsIn } from './look.ts';

/**
 * The table `seen` has no unique constraint, so that a second row of an event is found. The limit of attempts is high,
 * so that the many kills of the process never make a task a dead letter.
 */
export const COUNT = `
import { defineHandler } from '#kit';
export default defineHandler({
  on: 'MessageReceived',
  retry: { attempts: 1_000, firstMs: 10, maxMs: 50 },
  setup(tx) { tx.run('create table if not exists seen (n integer primary key, key text)'); },
  async handle(event, ctx) {
    await ctx.complete((tx) => tx.run('insert into seen (key) values (?)', event.key));
    process.stdout.write('completed ' + event.key + '\\n');
  },
});
`;

const EVENTS = { missed: 3, delivered: 9, again: 3 };
/** The number of concurrent deliveries within a round. */
const AT_ONCE = 3;
const SETTLED_MS = 30_000;

export interface Story {
  kit: Kit;
  path: string;
  /** Makes events without deliveries. The next start finds them by replay. */
  miss(): void;
  /** Delivers new events, some twice. Resolves when each delivery was accepted or all its attempts have failed. */
  deliver(events?: number): Promise<void>;
  /** Whether the handler has written a row for every event. */
  isSettled(): boolean;
  /** Resolves when `isSettled` is true or `died` returns true. Rejects after 30 s. */
  settled(died?: () => boolean): Promise<void>;
  violations(): string[];
  happened(): ReturnType<ReturnType<typeof createSimulatedService>['history']['all']>;
  close(): Promise<void>;
}

/**
 * Starts a story, handles one event, and stops the kit. The event is delivered, because replay begins at a delivery.
 */
export async function beginStory(seed: number): Promise<Story> {
  const story = await createStory(seed);
  await story.kit.start();
  await story.deliver(1);
  await story.settled();
  await story.kit.killAll();
  return story;
}

export async function createStory(seed: number, under: string[] = []): Promise<Story> {
  const random = createRandom(seed);
  // There are no waits between attempts, so all eight attempts of a delivery to a dead kit fail at once.
  const service = createSimulatedService({ seed, speed: Infinity, addresses: { loopback: true } });
  const { key, secret: apiKey } = service.keys.create({ name: 'crash', scopes: ['events:read'], validDays: null });
  const env = {
    API_BASE_URL: await service.listen(),
    API_KEY: apiKey,
    RECONCILE_INTERVAL_SECONDS: '2',
    RECONCILE_CALLS_PER_MINUTE: '119',
    ORDER_WINDOW_MS: '20',
  };
  const kit = await createKit({ count: COUNT }, env, under);
  const path = join(kit.folder, 'events.db');
  const url = `http://127.0.0.1:${kit.port}/webhooks`;
  const { webhook } = await service.webhooks.register(key, { url, secret: SECRET });
  const acknowledged = new Set<string>();

  async function deliverOne(copies: number): Promise<void> {
    const event = service.history.next();
    const { statuses } = await webhook.deliver(event, { copies });
    if (statuses.includes(204)) acknowledged.add(event.id);
  }

  const story: Story = {
    kit,
    path,
    miss: () => void Array.from({ length: EVENTS.missed }, () => service.history.next()),
    async deliver(events = EVENTS.delivered) {
      // Failed deliveries during earlier kills may have disabled the webhook.
      webhook.enable();
      const copies = Array.from({ length: events }, (_, n) => (n < EVENTS.again ? 2 : 1));
      const some = async (): Promise<void> => {
        for (let left = copies.length; left > 0; left = copies.length) {
          const [one = 1] = copies.splice(random.below(left), 1);
          await deliverOne(one);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, some));
    },
    isSettled: () => countsIn(path).effects >= service.history.all().length,
    settled: (died = () => false) => until(() => died() || story.isSettled(), SETTLED_MS),
    violations: () => violationsIn(path, { acknowledged, happened: service.history.all() }),
    happened: () => service.history.all(),
    async close() {
      await kit.remove();
      await service.close();
    },
  };
  return story;
}
