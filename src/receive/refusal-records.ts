// What refused deliveries looked like, so that a person can tell the service under a wrong secret from strangers' noise:
// the last few of each cause, by their headers alone, cut short. Strangers control how many come, never what it costs.
import type { IncomingMessage } from 'node:http';
import { iso, type Clock } from '../base/clock.ts';
import type { GroupCommit } from './group-commit.ts';
import type { Refusal } from '../store/keep.ts';
import { readTimestamp } from '../wire/signature.ts';

/** Of each cause. The causes are our own words, and few. */
const KEPT = 3;
const EVERY_MS = 5_000;
const CARRIED = ['Event-Id', 'Event-Type', 'Delivery-Id', 'Attempt', 'Timestamp'];

export interface RefusalRecords {
  note(cause: string, request: IncomingMessage): void;
}

export function createRefusalRecords({
  groupCommit,
  clock,
  prefix,
}: {
  groupCommit: Pick<GroupCommit, 'setState'>;
  clock: Clock;
  prefix: string;
}): RefusalRecords {
  const last = new Map<string, Refusal[]>();
  const names = CARRIED.map((name) => `${prefix}${name}`.toLowerCase());
  const notedAt = new Map<string, number>();

  return {
    note(cause, { headers }) {
      if (clock.monotonic() - (notedAt.get(cause) ?? -Infinity) < EVERY_MS) return;
      notedAt.set(cause, clock.monotonic());
      const now = clock.now();
      const timestamp = readTimestamp(headers[`${prefix}Timestamp`.toLowerCase()]?.toString());
      const bytes = Number(headers['content-length']);
      const refusal: Refusal = {
        at: iso(now) ?? '',
        headers: names.filter((name) => headers[name] !== undefined).length,
        // One that waited for the store has grown old here.
        skewSeconds: timestamp === undefined || cause === 'store' ? null : timestamp - Math.floor(now / 1000),
        agent: headers['user-agent']?.slice(0, 80) ?? null,
        bytes: Number.isSafeInteger(bytes) ? bytes : null,
      };
      last.set(cause, [refusal, ...(last.get(cause) ?? [])].slice(0, KEPT));
      groupCommit.setState('refusals', JSON.stringify(Object.fromEntries(last)));
    },
  };
}
