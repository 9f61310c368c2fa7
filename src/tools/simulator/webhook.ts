// The account's webhook (contract 3.2, 3.3, 6.3): signs each event, delivers it, and tries again by the schedule until
// the answer is a 2xx. Failures in a row switch the webhook off.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { signedHeaders } from '../../service/sign.ts';
import type { SimulatedEvent } from './history.ts';

/** The HTTP status. */
export type Answer = number | 'no answer';

export interface WebhookOptions {
  url: string;
  secret: string;
  clock: Clock;
  /** Divides the waits before attempts, and between the pings of a stream. */
  speed: number;
  onAttempt?: (event: SimulatedEvent, attempt: number, answer: Answer) => void;
  onDisabled?: () => void;
}

/** The wait before each attempt after the first (contract 3.3). */
const WAITS_MS = [30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000];
/** Contract 3.2 speaks of consecutive delivery failures. Failed attempts are counted, which is the stricter reading. */
const FAILURES = 15;
const ANSWER_MS = 10_000;

export const newSecret = (): string => `whsec_${randomUUID().replaceAll('-', '')}`;

export function createWebhook(options: WebhookOptions) {
  const post = createPost(options);
  let secrets = [options.secret];
  let state: 'enabled' | 'disabled' | 'disabled by failures' = 'enabled';
  let inARow = 0;
  /** Aborted when the webhook is switched off. */
  let enabled = new AbortController();

  function disable(as: typeof state = 'disabled'): void {
    state = as;
    enabled.abort();
  }

  function count(isSuccess: boolean): void {
    inARow = isSuccess ? 0 : inARow + 1;
    if (inARow < FAILURES) return;
    disable('disabled by failures');
    options.onDisabled?.();
  }

  return {
    /** Resolves with the answers to all attempts. None: the webhook is off. `afterMs`: the wait before the first one. */
    async deliver(event: SimulatedEvent, afterMs = 0): Promise<Answer[]> {
      const { signal } = enabled;
      const answers: Answer[] = [];
      const deliveryId = randomUUID();
      for (const wait of [afterMs, ...WAITS_MS]) {
        if (wait > 0) await sleep(wait / options.speed, undefined, { signal }).catch(() => {});
        if (signal.aborted) break;
        const answer = await post(event, deliveryId, answers.length + 1, secrets);
        answers.push(answer);
        options.onAttempt?.(event, answers.length, answer);
        const isSuccess = typeof answer === 'number' && answer >= 200 && answer < 300;
        if (!signal.aborted) count(isSuccess);
        if (isSuccess) break;
      }
      return answers;
    },
    /** Sends the event as a stranger would: once, and signed with another secret. */
    forge: (event: SimulatedEvent): Promise<Answer> => post(event, randomUUID(), 1, [newSecret()]),
    state: () => state,
    disable: (): void => disable(),
    /** Switches the webhook on. Events that happened while it was off are not delivered. */
    enable(): void {
      state = 'enabled';
      inARow = 0;
      enabled = new AbortController();
    },
    /** Returns the new secret. Deliveries are signed with the old one, too. */
    rotate(): string {
      const secret = newSecret();
      secrets = [secret, ...secrets.slice(0, 1)];
      return secret;
    },
  };
}

/** Signs each attempt anew, because the timestamp is the moment of signing. Redirects are not followed. */
function createPost({ url, clock }: WebhookOptions) {
  const webhook_id = randomUUID();
  return async (event: SimulatedEvent, deliveryId: string, attempt: number, secrets: string[]): Promise<Answer> => {
    const { id, type, createdAt: created_at, cursor, sessionId: session_id, data } = event;
    // All fields are under the type's name, except those of a test event (contract 6.3).
    const named = type === 'webhook.ping' ? data : { [type]: data };
    const body = Buffer.from(JSON.stringify({ id, type, created_at, cursor, session_id, webhook_id, data: named }));
    const timestampSeconds = Math.floor(clock.now() / 1_000);
    const headers = signedHeaders({ body, secrets, type, id, deliveryId, attempt, timestampSeconds });
    const signal = AbortSignal.timeout(ANSWER_MS);
    try {
      const answer = await fetch(url, { method: 'POST', body, headers, redirect: 'manual', signal });
      await answer.body?.cancel();
      return answer.status;
    } catch {
      return 'no answer';
    }
  };
}
