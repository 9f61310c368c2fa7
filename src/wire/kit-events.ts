// The event types that are not yours: a test of the service, and what the kit itself raises.
import { z } from 'zod';
import { define, integer, orElse } from '../base/event-type.ts';

export const kitEvents = {
  /** The test event that the service's dashboard sends. */
  'webhook.ping': define({
    data: z.looseObject({
      /** string: a text, or empty. */
      message: orElse(z.string(), ''),
    }),
    example: () => ({ message: 'a test' }),
  }),
  /** Raised by the kit: events of this stretch can no longer be fetched. Complete it by fetching what matters anew. */
  'kit.gap': define({
    data: z.looseObject({
      /** As `npx kit gaps` numbers it. */
      gap: integer(),
      /** The last cursor before it. */
      after: z.string(),
      /** The first cursor behind it; null where that is not known. */
      upTo: z.string().nullable(),
      /** Why it cannot be fetched. */
      reason: z.string(),
    }),
    example: () => ({ gap: 1, after: '1000', upTo: '2000', reason: 'the cursor has expired' }),
  }),
};
