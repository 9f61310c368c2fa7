// Signed deliveries to the kit of `npm run dev`, through its real endpoint.
import { randomUUID } from 'node:crypto';
import { systemClock as clock } from '../../base/clock.ts';
import { signedHeaders } from '../../wire/sign.ts';

export interface Endpoint {
  url: string;
  secret: string;
}

export interface Delivery {
  id: string;
  type: string;
  body: Buffer;
  attempt?: number;
  signal?: AbortSignal;
}

/** Resolves to the HTTP status. Undefined: there was no answer. */
export async function deliver(
  { url, secret }: Endpoint,
  { body, id, type, attempt = 1, signal = AbortSignal.timeout(10_000) }: Delivery,
): Promise<number | undefined> {
  const timestampSeconds = Math.floor(clock.now() / 1000);
  const signing = { secrets: [secret], type, id, deliveryId: randomUUID(), attempt, timestampSeconds };
  const headers = signedHeaders({ body, ...signing });
  const answer = await fetch(url, { method: 'POST', body, headers, signal }).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.status;
}
