// Logs and records refusals at a bounded cost, because anyone can cause floods of them. The first refusal of each cause
// is logged at once, later ones are counted. Facts from the headers of the last few are recorded.
import type { IncomingMessage } from 'node:http';
import { iso, type Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import { masked } from '../base/secrets.ts';
import { createThrottle, type Logger } from '../base/log.ts';
import { lastRefusals, looksLikeService } from '../store/health.ts';
import type { Refusal } from '../store/keep.ts';
import { receivedHeaders } from '../wire/headers.ts';
import { readTimestamp } from '../wire/signature.ts';
import { NOTICES, REFUSALS, type NoticeName, type RefusalName } from './causes.ts';
import type { GroupCommit } from './group-commit.ts';

export interface RefusalLog {
  note(cause: RefusalName | NoticeName, fields: Record<string, unknown>, error?: unknown): void;
}

export function createRefusalLog(log: Logger, clock: Clock): RefusalLog {
  const causes = { ...REFUSALS, ...NOTICES };
  const throttle = createThrottle(clock);
  return {
    note(cause, fields, error) {
      const more = throttle(cause);
      if (!more) return;
      const thrown = error === undefined ? {} : loggable(error);
      log.warn({ cause, ...fields, ...thrown, ...more }, causes[cause].log);
    },
  };
}

/**
 * For each cause, at most one refusal per RECORD_MS is recorded, and one that looks like the service's. The last few are
 * kept.
 */
const RECORD_MS = 5_000;

/** Records facts from a refusal's headers, so that people can tell the service with a wrong secret from a stranger. */
export function createRefusalRecords(groupCommit: Pick<GroupCommit, 'setState'>, clock: Clock, prefix: string) {
  const { signature: _, ...carried } = receivedHeaders(prefix);
  const names = Object.values(carried);
  const last = new Map<RefusalName, Refusal[]>();
  const recordedAt = new Map<string, number>();

  return (cause: RefusalName, { headers }: Pick<IncomingMessage, 'headers'>): void => {
    const now = clock.now();
    const timestamp = readTimestamp(headers[carried.timestamp]?.toString());
    const bytes = Number(headers['content-length']);
    const refusal: Refusal = {
      at: iso(now) ?? '',
      headers: names.filter((name) => headers[name] !== undefined).length,
      // A delivery that waited for the store has aged in this process, so its skew says nothing about clocks.
      skewSeconds: timestamp === undefined || cause === 'store' ? null : timestamp - Math.floor(now / 1000),
      agent: masked(headers['user-agent'] ?? '').slice(0, 80) || null,
      bytes: Number.isSafeInteger(bytes) ? bytes : null,
    };
    const kind = `${cause} ${looksLikeService(refusal)}`;
    if (clock.monotonic() - (recordedAt.get(kind) ?? -Infinity) < RECORD_MS) return;
    recordedAt.set(kind, clock.monotonic());
    last.set(cause, lastRefusals([refusal, ...(last.get(cause) ?? [])]));
    groupCommit.setState('refusals', JSON.stringify(Object.fromEntries(last)));
  };
}
