// Delivers events as the service does (contract 3.2, 3.3, 6.3): signed, over HTTP, again by the schedule until a 2xx,
// and not at all once too many attempts in a row have failed.
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock, type Clock } from '../clock.ts';
import type { SimulatedEvent } from './history.ts';
import { drawPlan, type Plan } from './plan.ts';
import { createPost, type Answer } from './post.ts';
import { createRandom } from './random.ts';
import { signedHeaders } from './sign.ts';

export interface SenderOptions {
  url: string;
  secrets: string[];
  seed: number;
  webhookId: string;
  /** Divides the waits between attempts. */
  speed?: number;
  timeoutMs?: number;
  prefix?: string;
  clock?: Clock;
  onAttempt?: (attempt: AttemptRecord) => void;
}

export interface AttemptRecord {
  event: SimulatedEvent;
  deliveryId: string;
  attempt: number;
  answer: Answer;
  forged: boolean;
}

export interface DeliverOptions {
  /** Deliveries of the same event at once. */
  copies?: number;
  /** By a stranger, who does not know the secret: tried once, and no failure of the webhook. */
  forged?: boolean;
  /** How far the signing clock is behind; below zero: ahead. */
  ageSeconds?: number;
}

export interface Delivered {
  event: SimulatedEvent;
  /** `refused` is a stranger's. Copies have the outcome of the one that fared worst. */
  outcome: 'delivered' | 'dropped' | 'refused' | 'abandoned' | 'disabled';
  attempts: number;
  statuses: Answer[];
}

export interface Sender {
  deliver(event: SimulatedEvent, options?: DeliverOptions): Promise<Delivered>;
  /** One outcome for each delivery, in the order of sending; a dropped event has one too. */
  deliverAll(events: SimulatedEvent[], plan?: Plan): Promise<Delivered[]>;
  /** Lets go of the connections. */
  close(): void;
}

/** Contract 3.3: the wait before attempt 1, 2, and so on. */
export const WAITS_MS = [0, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000];
/** Contract 3.2. Counted by attempt: the harder reading of "consecutive delivery failures". */
const FAILURES_ALLOWED = 15;
const WORST_FIRST = ['disabled', 'abandoned', 'refused', 'delivered'] as const;

export function createSender(options: SenderOptions): Sender {
  const { url, secrets, seed, webhookId, speed = 1, timeoutMs = 10_000, prefix = 'X-Svc-' } = options;
  const { clock = systemClock, onAttempt } = options;
  const random = createRandom(seed);
  const { post, close } = createPost(url, timeoutMs);
  let failureRun = 0;
  const disabled = (): boolean => failureRun >= FAILURES_ALLOWED;

  async function deliver(event: SimulatedEvent, { copies = 1, ...how }: DeliverOptions = {}): Promise<Delivered> {
    const delivered = await Promise.all(Array.from({ length: copies }, () => deliverOnce(event, how)));
    const statuses = delivered.flatMap((copy) => copy.statuses);
    const outcome = WORST_FIRST.find((worst) => delivered.some((copy) => copy.outcome === worst)) ?? 'dropped';
    return { event, outcome, attempts: statuses.length, statuses };
  }

  async function deliverOnce(event: SimulatedEvent, how: DeliverOptions): Promise<Delivered> {
    const { forged = false, ageSeconds = 0 } = how;
    const { id, type } = event;
    const body = bodyOf(event, webhookId);
    const deliveryId = random.uuid();
    const signers = forged ? [`whsec_of_a_stranger_${random.uuid()}`] : secrets;
    const statuses: Answer[] = [];
    const end = (outcome: Delivered['outcome']) => ({ event, outcome, attempts: statuses.length, statuses });

    for (const [failed, wait] of WAITS_MS.entries()) {
      if (wait > 0 && !disabled()) await sleep(wait / speed);
      if (disabled() && !forged) return end('disabled');
      const attempt = failed + 1;
      // Signed anew each time: the timestamp is the moment of signing.
      const timestampSeconds = Math.floor(clock.now() / 1000) - ageSeconds;
      const headers = signedHeaders({
        body,
        secrets: signers,
        type,
        id,
        deliveryId,
        attempt,
        timestampSeconds,
        prefix,
      });
      const answer = await post(body, headers);
      statuses.push(answer);
      onAttempt?.({ event, deliveryId, attempt, answer, forged });
      const success = typeof answer === 'number' && answer >= 200 && answer < 300;
      if (forged) return end(success ? 'delivered' : typeof answer === 'number' ? 'refused' : 'abandoned');
      // A success that was under way when the webhook was disabled does not enable it.
      if (!disabled()) failureRun = success ? 0 : failureRun + 1;
      if (success) return end('delivered');
    }
    return end('abandoned');
  }

  async function deliverAll(events: SimulatedEvent[], plan: Plan = {}): Promise<Delivered[]> {
    const queue = drawPlan(events, plan, random).entries();
    const outcomes: Delivered[] = [];

    async function work(): Promise<void> {
      for (const [index, { event, way }] of queue) {
        outcomes[index] =
          way === 'drop'
            ? { event, outcome: 'dropped', attempts: 0, statuses: [] }
            : await deliver(event, { forged: way === 'forge' });
      }
    }
    await Promise.all(Array.from({ length: plan.concurrency ?? 1 }, work));
    return outcomes;
  }

  return { deliver, deliverAll, close };
}

/** Contract 6.3; a ping's fields lie bare. */
function bodyOf({ id, type, createdAt, cursor, sessionId, data }: SimulatedEvent, webhookId: string): Buffer {
  const named = type === 'webhook.ping' ? data : { [type]: data };
  const envelope = {
    id,
    type,
    created_at: createdAt,
    cursor,
    session_id: sessionId,
    webhook_id: webhookId,
    data: named,
  };
  return Buffer.from(JSON.stringify(envelope));
}
