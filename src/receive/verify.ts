// Checks the signature and the timestamp of a delivery. Each check has a cause of its own, for the log and the metrics.
import type { IncomingMessage } from 'node:http';
import { receivedHeaders } from '../wire/headers.ts';
import { readSignatures, readTimestamp, startHashes } from '../wire/signature.ts';

/** A timestamp that is further off than this is refused before the body is read. */
const DAY_SECONDS = 86_400;

export interface Claimed {
  timestamp: number;
  signatures: Buffer[];
}

export type Verifier = ReturnType<typeof createVerifier>;

export function createVerifier(options: { secrets: string[]; prefix: string; toleranceSeconds: number }) {
  const { toleranceSeconds } = options;
  const names = receivedHeaders(options.prefix);
  let { secrets } = options;

  return {
    /** The timestamp and signatures in the headers, or the cause of a refusal. The body is not read. */
    headers(
      { headers }: Pick<IncomingMessage, 'headers'>,
      nowMs: number,
    ): Claimed | 'no_signature' | 'bad_timestamp' | 'far_timestamp' {
      const signatures = readSignatures(headers[names.signature]?.toString());
      if (signatures.length === 0) return 'no_signature';
      // Two header lines arrive joined by a comma, so they never pass as one timestamp.
      const timestamp = readTimestamp(headers[names.timestamp]?.toString());
      if (timestamp === undefined) return 'bad_timestamp';
      if (Math.abs(nowMs / 1000 - timestamp) > DAY_SECONDS) return 'far_timestamp';
      return { timestamp, signatures };
    },
    /** Starts the check of a body, which is given to `update` as it arrives. */
    body({ timestamp, signatures }: Claimed) {
      // A reload may change the list while the body arrives.
      const given = secrets;
      const hashes = startHashes(given, timestamp);
      return {
        update: hashes.update,
        /** The positions of the secrets that signed, or the cause of a refusal. `clock_skew`: outside the time window. */
        end(nowMs: number): number[] | 'bad_signature' | 'clock_skew' {
          const signed = hashes.signers(signatures).map((position) => given[position]);
          const found = secrets.flatMap((secret, position) => (signed.includes(secret) ? [position] : []));
          if (found.length === 0) return 'bad_signature';
          return inWindow(timestamp, nowMs, toleranceSeconds) ? found : 'clock_skew';
        },
      };
    },
    useSecrets(changed: string[]): void {
      secrets = changed;
    },
  };
}

/**
 * Whether the timestamp is at most the tolerance before or after now. Whole seconds count, because the service signs
 * whole seconds: with a tolerance of 300 s, 300 s off is accepted and 301 s is not.
 */
export function inWindow(timestamp: number, nowMs: number, toleranceSeconds: number): boolean {
  return Math.abs(Math.floor(nowMs / 1000) - timestamp) <= toleranceSeconds;
}
