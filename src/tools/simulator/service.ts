// The simulator, written from the contract alone. An event is stored in the history, delivered to every enabled
// webhook, sent on every stream and shown by ReplayEvents.
import { systemClock, type Clock } from '../../base/clock.ts';
import { startLoop, type Loop } from '../../base/loop.ts';
import { createAccount } from './account.ts';
import { createAddressRules, type AddressOptions } from './address.ts';
import { createServiceApi, type ServiceApi } from './api.ts';
import { createChaos, type Chaos, type Shares } from './chaos.ts';
import { createHistory, type History, type HistoryOptions, type Overrides, type SimulatedEvent } from './history.ts';
import { createKeys, type Keys } from './keys.ts';
import { createInbox } from './inbox.ts';
import { createLimits } from './limits.ts';
import { createOperations, type ReplayRules } from './operations.ts';
import { createPost, type PostOptions } from './post.ts';
import { createRandom } from '../random.ts';
import { DEFAULT_PREFIX } from '../../wire/headers.ts';
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
}

export interface SimulatedService {
  history: History;
  keys: Keys;
  webhooks: Webhooks;
  streams: Streams;
  chaos: Chaos;
  replay: ReplayRules;
  api: Pick<ServiceApi, 'calls'>;
  /** Makes events and starts their deliveries. */
  happen(count?: number, type?: string, overrides?: Overrides): SimulatedEvent[];
  /** Makes this many events per minute from now on. 0 stops. */
  run(perMinute: number): void;
  /** Resolves to the API's base URL. */
  listen(port?: number): Promise<string>;
  close(): Promise<void>;
}

export function createSimulatedService(options: ServiceOptions): SimulatedService {
  const { seed, speed = 1, prefix = DEFAULT_PREFIX, onAttempt } = options;
  const clock: Clock = options.clock ?? systemClock;
  const random = createRandom(~seed);
  const limits = createLimits(clock);
  const history = createHistory(options);
  const chaos = createChaos({ seed, ...options.chaos });
  const keys = createKeys({ numbers: history.numbers, clock, limits, random });
  const streams = createStreams({ history, keys, clock, speed });
  const addresses = createAddressRules(options.addresses);
  const post = createPost(options.post);
  const delivering = { addresses, post, limits, random, clock, speed, prefix, onAttempt };
  const webhooks = createWebhooks({ ...delivering, keys, history, chaos });
  const onSent = (data: Record<string, unknown>): void => void happen(1, 'MessageSent', { data });
  const account = createAccount({ numbers: history.numbers, random, onSent });
  const replay: ReplayRules = { filterAfterLimit: false };
  const others = createOperations({ history, keys, replay });
  const operations = new Map([...others, ...account.operations, ...createInbox(history)]);
  const api = createServiceApi({ keys, operations, account, streams, limits, chaos, speed });
  let running: Loop | undefined;

  function happen(count = 1, type?: string, overrides?: Overrides): SimulatedEvent[] {
    return Array.from({ length: count }, () => {
      const event = history.next(type, overrides);
      streams.publish(event);
      webhooks.publish(event);
      return event;
    });
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
