// What a release knew of its store when it closed it: a later kit must find the same, and go on from there.
import type { SqlRow } from '../../src/store/work.ts';

export interface Expected {
  /** Figures of `read.status`. */
  status: Record<string, unknown>;
  /** The tables, and how many rows each had. */
  rows: Record<string, number>;
  alarms: { name: string; cleared: boolean }[];
  /** Tasks that must run once more, and no others: by handler, the keys of their events. */
  due: Record<string, string[]>;
  /** The lanes in which they wait: by handler and lane, the keys in cursor order. */
  lanes: Record<string, string[]>;
  /** The table of a handler's own. */
  ledger: SqlRow[];
  steps: { handler: string; step: number; digest: string }[];
  /** What the handler had noted about one of the due tasks. */
  noted: { handler: string; key: string; notes: Record<string, unknown> };
  /** Bodies of deliveries, as the service sent them. */
  deliveries: string[];
  /** The same events, and those without a delivery, as replay shows them. */
  items: { cursor: string; json_payload: string }[];
  /** Keys of events that have lost their body, and of events that were removed. */
  purged: string[];
  removed: string[];
}
