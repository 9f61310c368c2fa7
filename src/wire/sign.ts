// The service's side of the signature (contract 6.3), written from the contract and not from the receiver's verification,
// so that the two cannot share a mistake.
import { createHmac } from 'node:crypto';

export interface Signing {
  body: Buffer;
  /** One `v1=` for each: two during the grace period of a rotation. */
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
  const { body, secrets, type, id, deliveryId, attempt, timestampSeconds, prefix = 'X-Svc-' } = signing;
  const sign = (secret: string): string =>
    `v1=${createHmac('sha256', secret).update(`${timestampSeconds}.`).update(body).digest('hex')}`;
  return {
    'Content-Type': 'application/json',
    'User-Agent': 'Svc-Webhooks/1',
    [`${prefix}Event-Id`]: id,
    [`${prefix}Event-Type`]: type,
    [`${prefix}Delivery-Id`]: deliveryId,
    [`${prefix}Attempt`]: String(attempt),
    [`${prefix}Timestamp`]: String(timestampSeconds),
    [`${prefix}Signature`]: secrets.map(sign).join(','),
  };
}
