// The simulator, written from the contract alone. An event is stored in the history, delivered to every enabled
// webhook, sent on every stream and shown by ReplayEvents.
import { systemClock, type Clock } from '../../base/clock.ts';
import { startLoop, type Loop } from '../../base/loop.ts';
import { createAddressRules, type AddressOptions } from './address.ts';
import { createServiceApi, type ServiceApi } from './api.ts';
import { createBilling, type Billing } from './billing.ts';
import { createChaos, type Chaos, type Shares } from './chaos.ts';
import { createHistory, type History, type HistoryOptions, type Overrides, type SimulatedEvent } from './history.ts';
import { createKeys, type Keys } from './keys.ts';
import { createInbox } from './inbox.ts';
import { createLimits } from './limits.ts';
import { createOperations } from './operations.ts';
import { createPost, type PostOptions } from './post.ts';
import { createRandom } from '../random.ts';
import { DEFAULT_PREFIX } from '../../wire/headers.ts';
import { createRoutes, pathOf } from './routes.ts';
import { createStreams, type Streams } from './stream.ts';
import type { AttemptRecord } from './webhook.ts';
import { createWebhooks, type Webhooks } from './webhooks.ts';

export interface ServiceOptions extends HistoryOptions {
  /**
   * Divides the simulator's waits: before a retry, before a delayed delivery, and between the pings of a stream. It
   * must be finite if streams are used.
   */
  speed?: number;
  prefix?: string;
  addresses?: AddressOptions;
  post?: PostOptions;
  chaos?: { seed?: number; shares?: Partial<Shares>; on?: boolean };
  onAttempt?: (attempt: AttemptRecord) => void;
  onDisabled?: (reason: string) => void;
}

export interface SimulatedService {
  history: History;
  keys: Keys;
  webhooks: Webhooks;
  streams: Streams;
  chaos: Chaos;
  /** True: ReplayEvents filters for a restricted key after the limit. Chaos does so, too. */
  replay: { filterAfterLimit: boolean };
  billing: Pick<Billing, 'balance' | 'expire'>;
  /** The operations whose answers the contract does not show. */
  invented: string[];
  /** The operations and routes, as a fault names them. */
  callNames: string[];
  api: Pick<ServiceApi, 'calls'>;
  /** Makes events and starts their deliveries. */
  happen(count?: number, type?: string, overrides?: Overrides): SimulatedEvent[];
  /** Makes this many events per minute from now on. 0 stops. */
  run(perMinute: number): void;
  /** Resolves to the API's base URL. */
  listen(port?: number): Promise<string>;
  close(): Promise<void>;
}

// oxlint-disable-next-line max-lines-per-function -- the parts of the service, put together
export function createSimulatedService(options: ServiceOptions): SimulatedService {
  const { seed, speed = 1, prefix = DEFAULT_PREFIX, onAttempt, onDisabled } = options;
  const clock: Clock = options.clock ?? systemClock;
  const random = createRandom(~seed);
  const limits = createLimits(clock);
  const history = createHistory(options);
  const chaos = createChaos({ seed, ...options.chaos });
  const keys = createKeys({ numbers: history.numbers, clock, limits, random });
  const streams = createStreams({ history, keys, clock, speed });
  const addresses = createAddressRules(options.addresses);
  const post = createPost(options.post);
  const delivering = { addresses, post, limits, random, clock, speed, prefix, onAttempt, onDisabled };
  const webhooks = createWebhooks({ ...delivering, keys, history, chaos });
  const inbox = createInbox(history);
  const billing = createBilling({ random, clock });
  const replay = { filterAfterLimit: false };
  const filtersAfterLimit = (): boolean => replay.filterAfterLimit || chaos.isOn();
  const operations = createOperations({ history, keys, inbox, filtersAfterLimit });
  const those = (which: 'paid' | 'invented'): string[] =>
    [...operations].filter(([, operation]) => operation[which]).map(([name]) => name);
  const routes = createRoutes({ keys, billing, inbox, random, paid: those('paid'), onSent });
  const api = createServiceApi({ keys, operations, routes, billing, streams, limits, chaos, speed });
  let running: Loop | undefined;

  function happen(count = 1, type?: string, overrides?: Overrides): SimulatedEvent[] {
    return Array.from({ length: count }, () => {
      const event = history.next(type, { ...overrides, ...(chaos.bare() && { bare: 'on' }) });
      streams.publish(event);
      webhooks.publish(event);
      return event;
    });
  }

  function onSent(message_id: string, sessionId: unknown): void {
    happen(1, 'MessageSent', { data: { message_id }, ...(typeof sessionId === 'string' && { sessionId }) });
  }

  function run(perMinute: number): void {
    void running?.stop();
    running = undefined;
    if (perMinute <= 0) return;
    running = startLoop(() => {
      happen();
      return 60_000 / perMinute;
    });
  }

  return {
    history,
    keys,
    webhooks,
    streams,
    chaos,
    replay,
    billing,
    invented: those('invented'),
    callNames: ['events', ...routes.map(pathOf), ...operations.keys()],
    api,
    happen,
    run,
    listen: (port) => api.listen(port),
    async close() {
      run(0);
      streams.end();
      await Promise.all([webhooks.close(), api.close()]);
    },
  };
}
