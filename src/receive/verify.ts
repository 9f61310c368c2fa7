// Who sent this, and when: the checks in their order, each with the exact cause for log and metric. To the sender all
// refusals look alike.
import type { IncomingMessage } from 'node:http';
import { findSigners, readSignatures, readTimestamp } from '../wire/signature.ts';

/** A timestamp further off than this is refused before the body is read. */
const DAY_SECONDS = 86_400;

export type Cause = 'no_signature' | 'bad_timestamp' | 'far_timestamp' | 'bad_signature' | 'clock_skew';

export interface Claimed {
  timestamp: number;
  signatures: Buffer[];
}

export interface Verifier {
  /** What the headers claim, or why they cannot be true; nothing is read. */
  headers(request: IncomingMessage, nowMs: number): Claimed | Cause;
  /** The positions of the secrets that signed, or the cause. `clock_skew` is authentic, but outside the window. */
  body(claimed: Claimed, body: Buffer, nowMs: number): number[] | Cause;
  /** For a rotation. */
  useSecrets(secrets: string[]): void;
}

export function createVerifier(options: { secrets: string[]; prefix: string; toleranceSeconds: number }): Verifier {
  const { toleranceSeconds } = options;
  const signatureHeader = `${options.prefix}Signature`.toLowerCase();
  const timestampHeader = `${options.prefix}Timestamp`.toLowerCase();
  let { secrets } = options;

  return {
    headers({ headers }, nowMs) {
      const signatures = readSignatures(single(headers[signatureHeader]));
      if (signatures.length === 0) return 'no_signature';
      // Two header lines arrive joined by a comma, which no timestamp has.
      const timestamp = readTimestamp(single(headers[timestampHeader]));
      if (timestamp === undefined) return 'bad_timestamp';
      if (Math.abs(nowMs / 1000 - timestamp) > DAY_SECONDS) return 'far_timestamp';
      return { timestamp, signatures };
    },
    body({ timestamp, signatures }, body, nowMs) {
      const signers = findSigners(secrets, timestamp, body, signatures);
      if (signers.length === 0) return 'bad_signature';
      return inWindow(timestamp, nowMs, toleranceSeconds) ? signers : 'clock_skew';
    },
    useSecrets(changed) {
      secrets = changed;
    },
  };
}

/** Both ways, in whole seconds, as the service signs them: 300 s old is in, 301 s is out. */
export function inWindow(timestamp: number, nowMs: number, toleranceSeconds: number): boolean {
  return Math.abs(Math.floor(nowMs / 1000) - timestamp) <= toleranceSeconds;
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(',') : header;
}
