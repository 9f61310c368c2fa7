// Refusals come in floods that strangers control: the first of each cause is logged at once, the rest as a count.
import type { Clock } from '../clock.ts';
import { loggable } from '../errors.ts';
import { createSeldom, type Logger } from '../log.ts';

export interface Sampler {
  note(cause: string, fields: Record<string, unknown>, error?: unknown): void;
}

export function createSampler(log: Logger, clock: Clock): Sampler {
  const seldom = createSeldom(clock);
  return {
    note(cause, fields, error) {
      const more = seldom(cause);
      if (!more) return;
      const thrown = error === undefined ? {} : loggable(error);
      log.warn({ cause, ...fields, ...thrown, ...more }, wording(cause));
    },
  };
}

function wording(cause: string): string {
  switch (cause) {
    case 'no_signature':
      return 'refused: no readable v1= signature';
    case 'bad_timestamp':
      return 'refused: the timestamp is missing or not Unix seconds';
    case 'far_timestamp':
      return 'refused: the timestamp is more than a day off';
    case 'bad_signature':
      return 'refused: no secret of ours signed this; if it is the service, WEBHOOK_SECRET is not its secret';
    case 'clock_skew':
      return 'refused: rightly signed, but outside the time window; check the clock of this machine';
    case 'content_encoding':
      return 'refused: compressed bodies are not read; the service sends none';
    case 'body_limit':
      return 'refused: the body is above BODY_LIMIT_BYTES';
    case 'body_dropped':
      return 'dropped: the slowest of too many large bodies';
    case 'body_aborted':
      return 'the sender went away before its body was complete';
    case 'path':
      return 'refused: a path that is neither WEBHOOK_PATH nor a probe';
    case 'method':
      return 'refused: deliveries are POST';
    case 'store':
      return 'answered 503: the store could not be written in time';
    case 'quarantined':
      return 'kept aside: rightly signed, but not readable as an event; see npx kit quarantine';
    case 'conflict':
      return 'contradicts an event that was there before; see npx kit explain';
    case 'store_busy':
      return 'the store has been locked for a second: deliveries wait, and are answered 503 after 8 s';
    case 'store_unwritable':
      return 'the store cannot be written: deliveries wait, and are answered 503 after 8 s; see the disk';
    case 'broken_answer':
      return 'an answer broke off: the sender went away, or a fault of the kit, which the line names';
    default:
      return 'refused';
  }
}
