// What the service thinks of us: our failures in a row by cause, and which of our secrets sign. Kept over restarts; it
// keeps the books and decides nothing. What doctor and trigger send is no delivery of the service, and not entered.
import { createHash } from 'node:crypto';
import { iso, type Clock } from '../base/clock.ts';
import type { GroupCommit } from './group-commit.ts';
import type { KeptHealth, Signer } from '../store/keep.ts';
import type { Reading } from '../wire/event.ts';

/** Good deliveries and strangers' noise are written at most this often, by the time of day; failures at once. */
const WRITE_MS = 1_000;
/** A secret that is configured no more is remembered for so long: it may come back. */
const REMEMBER_MS = 86_400_000;
/** A run of failures that people should hear of, though it is over. */
const WORTH_TELLING = 3;

export interface DeliveryHealth {
  /** The secrets at these positions signed a delivery of the service, at this time, Unix seconds (contract 6.3). */
  signed(positions: number[], timestamp: number): void;
  /** How an authentic delivery of the service was answered; the cause is that of a refusal. */
  answered(status: number, cause: string): void;
  /** A delivery that no secret of ours signed: a stranger's, or the service's under a secret that we do not have. */
  forged(): void;
  /** For a rotation: from now on positions are those of this list. */
  useSecrets(secrets: string[]): void;
  /** The present failure run, and its causes. */
  run(): { failureRun: number; causes: Record<string, number> };
  /** Hands what is new to the intake, to be written with its next commit. */
  flush(): void;
}

export function createDeliveryHealth({
  groupCommit,
  clock,
  secrets,
  kept,
  onFailure = () => {},
}: {
  groupCommit: Pick<GroupCommit, 'count' | 'setState'>;
  clock: Clock;
  secrets: string[];
  /** What an earlier boot wrote. */
  kept: KeptHealth;
  /** So many in a row by now. */
  onFailure?: (run: number) => void;
}): DeliveryHealth {
  let run = kept.failureRun;
  const { failures } = kept;
  const signers = new Map(kept.signers.map((signer) => [signer.fingerprint, signer]));
  let configured: Signer[] = [];
  let goodAt: number | null = null;
  let news = false;
  let writtenAt = -Infinity;

  function flush(): void {
    if (!news) return;
    news = false;
    writtenAt = clock.monotonic();
    const now = clock.now();
    if (goodAt !== null) failures.lastGoodAt = iso(goodAt);
    for (const one of configured) one.mayGo = mayGo(one, configured);
    for (const { fingerprint, goneAt } of signers.values())
      if (goneAt !== null && now - goneAt > REMEMBER_MS) signers.delete(fingerprint);
    groupCommit.setState('failure_run', run);
    groupCommit.setState('failures', JSON.stringify(failures));
    groupCommit.setState('signers', JSON.stringify([...signers.values()]));
  }

  function note(atOnce: boolean): void {
    news = true;
    if (atOnce || clock.monotonic() - writtenAt >= WRITE_MS) flush();
  }

  function signerOf(secret: string): Signer {
    const fingerprint = fingerprintOf(secret);
    const fresh = { hits: 0, firstAt: null, lastAt: null, aloneAt: null, mayGo: false };
    const signer = signers.get(fingerprint) ?? { fingerprint, number: null, ...fresh, goneAt: null };
    signers.set(fingerprint, signer);
    return signer;
  }

  function useSecrets(list: string[]): void {
    configured = list.map(signerOf);
    for (const signer of signers.values()) {
      const position = configured.indexOf(signer);
      signer.number = position === -1 ? null : position + 1;
      signer.goneAt = position === -1 ? (signer.goneAt ?? clock.now()) : null;
    }
    note(true);
  }
  useSecrets(secrets);

  return {
    signed(positions, timestamp) {
      const at = timestamp * 1000;
      const hit = new Set(positions.map((position) => configured[position]));
      for (const signer of hit) {
        if (!signer) continue;
        signer.hits++;
        signer.firstAt = Math.min(signer.firstAt ?? at, at);
        signer.lastAt = Math.max(signer.lastAt ?? at, at);
        if (hit.size === 1) signer.aloneAt = Math.max(signer.aloneAt ?? at, at);
      }
      // Written with its answer.
      news = true;
    },
    answered(status, cause) {
      if (status >= 300) {
        run++;
        failures.causes[cause] = (failures.causes[cause] ?? 0) + 1;
        onFailure(run);
        return note(true);
      }
      const ended = run > 0;
      // Told even where it was over before it could be written.
      if (run >= WORTH_TELLING) groupCommit.count({ failure_runs: 1 });
      run = 0;
      goodAt = clock.now();
      if (ended || failures.badSignatures > 0)
        Object.assign(failures, { causes: {}, badSignatures: 0, badSince: null });
      note(ended);
    },
    forged() {
      failures.badSignatures++;
      failures.lastBadAt = iso(clock.now());
      failures.badSince ??= failures.lastBadAt;
      note(false);
    },
    useSecrets,
    run: () => ({ failureRun: run, causes: failures.causes }),
    flush,
  };
}

type Use = Pick<Signer, 'firstAt' | 'lastAt' | 'aloneAt'>;

/**
 * Whether this secret may be taken out of the configuration: it has signed, but another signs in its place. Either the
 * other began when this one was last needed alone, or later, and signs on; or this one was never needed alone, and the
 * other was after it. A secret that waits for the rotation has not signed, and stays; so do those of two webhooks, which
 * are needed alone in turn.
 */
export function mayGo(one: Use, all: Use[]): boolean {
  const { aloneAt, lastAt } = one;
  if (lastAt === null) return false;
  return all.some((other) => {
    if (other === one || other.firstAt === null || other.lastAt === null) return false;
    if (aloneAt === null) return other.aloneAt !== null && other.aloneAt > lastAt;
    return other.firstAt >= aloneAt && other.lastAt > aloneAt;
  });
}

/** Whether doctor or trigger sent it, and not the service: of a body whose signature was right. */
export function isOurs(reading: Reading): boolean {
  const { sentByKit = false } = 'event' in reading ? reading.event : reading.unreadable;
  return sentByKit;
}

/**
 * Whether the service says that it tried before: attempts 2 to 20. The header is not signed, so it is evidence of
 * failures that we did not see, and decides nothing.
 */
export function isRepeated(attempt: string | string[] | undefined): boolean {
  return typeof attempt === 'string' && /^([2-9]|1\d|20)$/.test(attempt);
}

/** Tells secrets apart, and reveals nothing of them. */
function fingerprintOf(secret: string): string {
  return createHash('sha256').update(`which secret signed: ${secret}`).digest('hex').slice(0, 16);
}
