// The service's side of the signature (contract 6.3). It is written from the contract, not from the receiver's
// verification, so that the two cannot share a mistake. They share only the names of headers, which
// test/tools/simulator.test.ts spells out.
import { createHmac } from 'node:crypto';
import { DEFAULT_PREFIX, DELIVERY } from '../wire/headers.ts';

export interface Signing {
  body: Buffer;
  /** Each secret adds a `v1=` value. There are two during the grace period of a rotation. */
  secrets: string[];
  type: string;
  /** The event's id, as in the body. */
  id: string;
  deliveryId: string;
  /** From 1. */
  attempt: number;
  /** The moment of signing, Unix seconds. */
  timestampSeconds: number;
  prefix?: string;
}

/** The headers of one attempt (contract 6.3). */
export function signedHeaders(signing: Signing): Record<string, string> {
  const { body, secrets, type, id, deliveryId, attempt, timestampSeconds, prefix = DEFAULT_PREFIX } = signing;
  const sign = (secret: string): string =>
    `v1=${createHmac('sha256', secret).update(`${timestampSeconds}.`).update(body).digest('hex')}`;
  return {
    'Content-Type': 'application/json',
    'User-Agent': 'Svc-Webhooks/1',
    [`${prefix}${DELIVERY.eventId}`]: id,
    [`${prefix}${DELIVERY.eventType}`]: type,
    [`${prefix}${DELIVERY.deliveryId}`]: deliveryId,
    [`${prefix}${DELIVERY.attempt}`]: String(attempt),
    [`${prefix}${DELIVERY.timestamp}`]: String(timestampSeconds),
    [`${prefix}${DELIVERY.signature}`]: secrets.map(sign).join(','),
  };
}
