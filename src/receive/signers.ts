// Counts the deliveries that each configured secret signed, so that a person knows when an old secret is safe to
// remove. The counts are kept over restarts.
import { createHash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { mayGo } from '../store/health.ts';
import type { Signer } from '../store/keep.ts';

/** A secret that was removed may be configured again, so its counts are kept for this long. */
const REMEMBER_MS = 86_400_000;

export function createSigners(kept: Signer[], clock: Clock) {
  const signers = new Map(kept.map((signer) => [signer.fingerprint, signer]));
  let configured: Signer[] = [];

  function signerOf(secret: string): Signer {
    const fingerprint = fingerprintOf(secret);
    const times = { firstAt: null, lastAt: null, aloneAt: null, goneAt: null };
    const signer = signers.get(fingerprint) ?? { fingerprint, number: null, hits: 0, ...times, mayGo: false };
    signers.set(fingerprint, signer);
    return signer;
  }

  return {
    use(secrets: string[]): void {
      configured = secrets.map(signerOf);
      for (const signer of signers.values()) {
        const position = configured.indexOf(signer);
        signer.number = position === -1 ? null : position + 1;
        signer.goneAt = position === -1 ? (signer.goneAt ?? clock.now()) : null;
      }
    },
    signed(positions: number[], timestamp: number): void {
      const at = timestamp * 1000;
      const hit = new Set(positions.map((position) => configured[position]));
      for (const signer of hit) {
        if (!signer) continue;
        signer.hits++;
        signer.firstAt = Math.min(signer.firstAt ?? at, at);
        signer.lastAt = Math.max(signer.lastAt ?? at, at);
        if (hit.size === 1) signer.aloneAt = Math.max(signer.aloneAt ?? at, at);
      }
    },
    list(): Signer[] {
      for (const one of configured) one.mayGo = mayGo(one, configured);
      for (const { fingerprint, goneAt } of signers.values())
        if (goneAt !== null && clock.now() - goneAt > REMEMBER_MS) signers.delete(fingerprint);
      return [...signers.values()];
    },
  };
}

/** Tells secrets apart without revealing them. */
function fingerprintOf(secret: string): string {
  return createHash('sha256').update(`which secret signed: ${secret}`).digest('hex').slice(0, 16);
}
