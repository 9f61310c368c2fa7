// Refusals come in floods that strangers control: the first of each cause is logged at once, the rest as a count.
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import { createSeldom, type Logger } from '../base/log.ts';

export interface RefusalLog {
  note(cause: string, fields: Record<string, unknown>, error?: unknown): void;
}

const WORDS: Record<string, string> = {
  no_signature: 'refused: no readable v1= signature',
  bad_timestamp: 'refused: the timestamp is missing or not Unix seconds',
  far_timestamp: 'refused: the timestamp is more than a day off',
  bad_signature: 'refused: no secret of ours signed this; if it is the service, WEBHOOK_SECRET is not its secret',
  clock_skew: 'refused: rightly signed, but outside the time window; check the clock of this machine',
  own_skew: 'refused: signed too long ago by the kit itself (npx kit trigger --old); the clock is no concern',
  content_encoding: 'refused: compressed bodies are not read; the service sends none',
  body_limit: 'refused: the body is above BODY_LIMIT_BYTES',
  body_dropped: 'dropped: the slowest of too many large bodies',
  body_aborted: 'the sender went away before its body was complete',
  path: 'refused: a path that is neither WEBHOOK_PATH nor a probe',
  method: 'refused: deliveries are POST',
  store: 'answered 503: the store could not be written in time',
  quarantined: 'kept aside: rightly signed, but not readable as an event; see npx kit quarantine',
  conflict: 'contradicts an event that was there before; see npx kit explain',
  store_busy:
    'the store has not taken a write for a second: its lock is held, or its disk is full; deliveries wait, and are answered 503 after 8 s',
  store_unwritable: 'the store cannot be written: deliveries wait, and are answered 503 after 8 s; see the disk',
  store_replaced: 'answered 503: the store was replaced or deleted; stop the kit, then npx kit restore <file>',
  broken_answer: 'an answer broke off: the sender went away, or a fault of the kit, which the line names',
};

export function createRefusalLog(log: Logger, clock: Clock): RefusalLog {
  const seldom = createSeldom(clock);
  return {
    note(cause, fields, error) {
      const more = seldom(cause);
      if (!more) return;
      const thrown = error === undefined ? {} : loggable(error);
      log.warn({ cause, ...fields, ...thrown, ...more }, WORDS[cause] ?? 'refused');
    },
  };
}
