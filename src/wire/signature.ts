// The service's signature over a delivery (contract 6.3): hex of HMAC-SHA256 over `<timestamp>.<raw body>`. The key is
// the whole `whsec_…` text. Each signature has the prefix `v1=`. For a time after a rotation, the service sends two.
// Only the timestamp and the body are signed.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** A header with more signatures counts as unsigned. Hundreds would fit, but the service sends at most two. */
const MOST = 8;
const TIMESTAMP = /^[1-9]\d{8,11}$/;
const VALUE = /^v1=([0-9a-f]{64})$/i;

/**
 * Unix seconds. Undefined for anything but 9 to 12 digits: a header like `1700000000.{"id":` would move the boundary
 * between timestamp and body in the signed text.
 */
export function readTimestamp(header: string | undefined): number | undefined {
  return header !== undefined && TIMESTAMP.test(header) ? Number(header) : undefined;
}

/**
 * The `v1=` signatures, as lower-case hex. Hex may be upper case, the prefix may not. Two headers arrive joined by a
 * comma and count as one list. Empty if there are too many signatures.
 */
export function readSignatures(header: string | undefined): string[] {
  const entries = header?.split(',', MOST + 1) ?? [];
  if (entries.length > MOST) return [];
  return entries.flatMap((entry) => {
    const text = entry.trim();
    const hex = text.startsWith('v1=') ? VALUE.exec(text)?.[1] : undefined;
    return hex ? [hex.toLowerCase()] : [];
  });
}

/** Whether one of the secrets has signed the body. Every signature is tried with every secret, in constant time. */
export function isSigned(body: Buffer, timestamp: number, signatures: string[], secrets: string[]): boolean {
  let found = false;
  for (const secret of secrets) {
    // Compared as hex text: a digest that is made as bytes would cost as much again as the hash.
    const expected = Buffer.from(createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex'));
    for (const signature of signatures) if (timingSafeEqual(expected, Buffer.from(signature))) found = true;
  }
  return found;
}
