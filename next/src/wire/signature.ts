// The service's signature over a delivery (contract 6.3): hex of HMAC-SHA256 over `<timestamp>.<raw body>`. The key is
// the whole `whsec_…` text. Each value has the prefix `v1=`, and a rotation sends several. Only the timestamp and the
// body are signed.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** A header with more signatures counts as unsigned. It can carry hundreds, but the service sends two at most. */
const MOST = 8;
const TIMESTAMP = /^[1-9]\d{8,11}$/;
const VALUE = /^v1=([0-9a-f]{64})$/i;

/**
 * Unix seconds, or undefined for anything but digits: a header like `1700000000.{"id":` would move the boundary between
 * timestamp and body in the signed text.
 */
export function readTimestamp(header: string | undefined): number | undefined {
  return header !== undefined && TIMESTAMP.test(header) ? Number(header) : undefined;
}

/**
 * The `v1=` values, as bytes. Hex may be upper case, the prefix may not. Two header lines arrive joined by a comma and
 * count as one list. Empty if there are too many values.
 */
export function readSignatures(header: string | undefined): Buffer[] {
  const entries = header?.split(',', MOST + 1) ?? [];
  if (entries.length > MOST) return [];
  return entries.flatMap((entry) => {
    const text = entry.trim();
    const hex = text.startsWith('v1=') ? VALUE.exec(text)?.[1] : undefined;
    return hex ? [Buffer.from(hex, 'hex')] : [];
  });
}

/** Hashes a body as it arrives, with each secret. */
export function startHashes(secrets: string[], timestamp: number) {
  const hmacs = secrets.map((secret) => createHmac('sha256', secret).update(`${timestamp}.`));
  return {
    update: (part: Buffer): void => hmacs.forEach((hmac) => hmac.update(part)),
    /** The positions of all secrets that signed. Every value is compared with every secret, in constant time. */
    signers: (signatures: Buffer[]): number[] =>
      hmacs.flatMap((hmac, position) => {
        const expected = hmac.digest();
        const matching = signatures.filter((signature) => timingSafeEqual(expected, signature));
        return matching.length > 0 ? [position] : [];
      }),
  };
}
