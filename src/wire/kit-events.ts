// The event types that are not yours: the service's test event, and the kit's own event.
import { z } from 'zod';
import { define, integer, orElse } from '../base/define-event.ts';

export const kitEvents = {
  /** The test event that the service's dashboard sends. */
  'webhook.ping': define({
    data: z.looseObject({
      message: orElse(z.string(), ''),
    }),
    example: () => ({ message: 'a test' }),
  }),
  /**
   * Raised by the kit: the service can no longer replay the events of this range. Fetch those that matter in another
   * way. The first handler that completes the event closes the gap.
   */
  'kit.gap': define({
    data: z.looseObject({
      /** The gap's number in `npx kit gaps`. */
      gap: integer(),
      /** The last cursor before the gap. */
      after: z.string(),
      /** The first cursor after the gap. Null: unknown. */
      upTo: z.string().nullable(),
      /** Why the events cannot be fetched. */
      reason: z.string(),
    }),
    example: () => ({ gap: 1, after: '1000', upTo: '2000', reason: 'the cursor has expired' }),
  }),
};
