// Every cause of a refusal: its HTTP status, and its texts in the log, on the page "Refused" and in `doctor`. Metrics
// count it by name. To add a cause, add one object here, and use its name in the code that refuses.
import type { StoreError } from '../store/store.ts';

export interface Cause {
  /** HTTP status of the answer. The answer has no body, so senders learn nothing else about the refusal. */
  status: number;
  /**
   * Whether the refusal counts toward the 15 that switch the webhook off (contract 3.2). `surely`: the service sent the
   * delivery. `likely`: its body was never verified, so it counts if its headers are those of a delivery.
   */
  counts?: 'surely' | 'likely';
  log: string;
  /** Text on the page "Refused". */
  page: string;
  /** The fix, shown by the alarm `failure_run` and by `doctor`. */
  remedy?: string;
}

export const REFUSALS = {
  no_signature: {
    status: 401,
    log: 'refused: no readable v1= signature',
    page: 'No readable v1= signature: not the service, or WEBHOOK_HEADER_PREFIX is wrong',
  },
  bad_timestamp: {
    status: 401,
    log: 'refused: the timestamp is missing or not Unix seconds',
    page: 'No readable timestamp: not the service',
  },
  far_timestamp: {
    status: 401,
    counts: 'likely',
    log: 'refused: the timestamp is more than a day off; if the service sent it, the clock of this machine is wrong',
    page: 'The timestamp is more than a day off: not the service, or the clock of this machine is wrong by days',
    remedy: 'the clock of this machine may be wrong by more than a day: check it with timedatectl',
  },
  bad_signature: {
    status: 401,
    log: 'refused: no secret of ours signed this; if the service sent it, WEBHOOK_SECRET is wrong',
    page: 'No secret of ours signed it: not the service, or WEBHOOK_SECRET is wrong',
  },
  clock_skew: {
    status: 401,
    counts: 'surely',
    log: 'refused: the signature is valid, but outside the time window; check the clock of this machine',
    page: 'The signature is valid, but outside the time window: synchronise the clock of this machine',
    remedy: 'the clock of this machine is wrong: synchronise it',
  },
  own_skew: {
    status: 401,
    log: 'refused: signed too long ago by the kit itself (npx kit trigger --old); this says nothing about the clock',
    page: 'Sent by npx kit trigger --old: expected',
  },
  content_encoding: {
    status: 415,
    counts: 'likely',
    log: 'refused: compressed bodies are not read; the service sends none',
    page: 'Compressed: let the proxy pass bodies as they are',
    remedy: 'let it pass bodies as they come',
  },
  body_limit: {
    status: 413,
    counts: 'likely',
    log: 'refused: the body is above BODY_LIMIT_BYTES',
    page: 'Above BODY_LIMIT_BYTES: raise it if the service sent it',
    remedy: 'raise BODY_LIMIT_BYTES: the service may send 12 MiB',
  },
  body_dropped: {
    status: 408,
    counts: 'likely',
    log: 'dropped: of too many bodies at once, the one that held the most for the longest',
    page: 'Dropped for the budget: too many large bodies at once',
    remedy: 'strangers send too many large bodies: let the proxy limit them',
  },
  body_aborted: {
    status: 408,
    log: 'the sender went away before its body was complete',
    page: 'The sender went away: see the proxy in front',
  },
  bad_http: {
    status: 400,
    log: 'refused: no readable HTTP, or more than 16 KiB of headers; if the service sent it, see the proxy in front',
    page: 'No readable HTTP, or more than 16 KiB of headers: noise, or the proxy in front adds too many',
  },
  path: {
    status: 404,
    log: 'refused: a path that is neither WEBHOOK_PATH nor a probe',
    page: 'Another path: noise, or the proxy passes more than WEBHOOK_PATH',
  },
  method: {
    status: 405,
    log: 'refused: deliveries are POST',
    page: 'Not a POST: noise',
  },
  store: {
    status: 503,
    counts: 'surely',
    log: 'answered 503: the store could not be written in time',
    page: 'Answered 503: the store could not be written within 8 s; see its disk or server',
    remedy: 'the store could not be written: the disk is full or failing (df -h), or something locks the file',
  },
} satisfies Record<string, Cause>;

export type RefusalName = keyof typeof REFUSALS;

/** Notices are logged and throttled like refusals. `readyz` is the text of /readyz while a notice applies. */
export const NOTICES = {
  quarantined: {
    log: 'quarantined: the signature is valid, but the body is no readable event; see npx kit quarantine',
  },
  conflict: { log: 'contradicts an event that is already stored; see npx kit explain' },
  broken_answer: { log: 'an answer broke off: the sender disconnected, or the kit failed with the error in this line' },
  store_busy: {
    log: 'the store has not taken a write for a second: its lock is held, or its disk is full; deliveries wait, and are answered 503 after 8 s',
  },
  store_unwritable: {
    log: 'the store cannot be written: deliveries wait, and are answered 503 after 8 s; see its disk or server',
    readyz: 'the store cannot be written',
  },
  store_replaced: {
    log: 'answered 503: the store was replaced or deleted; stop the kit, then npx kit restore <file>',
    readyz: 'the store was replaced or deleted: stop the kit, then put a backup in its place with npx kit restore',
  },
};

export type NoticeName = keyof typeof NOTICES;

export function storeNotice(code: StoreError['code']): NoticeName {
  return code === 'busy' || code === 'replaced' ? `store_${code}` : 'store_unwritable';
}

/** Undefined if the cause is unknown: another version of the kit may have written its name to the store. */
export function causeOf(name: string): Cause | undefined {
  return Object.hasOwn(REFUSALS, name) ? REFUSALS[name as RefusalName] : undefined;
}

/** The number of refusals by cause, from the store's counters. */
export function refusalsIn(counters: Record<string, number>): Map<string, number> {
  const refused = Object.entries(counters).filter(([name, n]) => name.startsWith('refused.') && n > 0);
  return new Map(refused.map(([name, n]) => [name.slice('refused.'.length), n]));
}
