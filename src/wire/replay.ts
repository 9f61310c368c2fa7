// The messages of ReplayEvents (contract 2.13, 4.2), with only the fields that the kit needs. A page that does not fit
// is refused as a whole; an item that does not fit is quarantined alone.
import { z } from 'zod';

export const REPLAY_LIMIT = 1_000;

export const replayPage = z.object({
  events: z.array(z.unknown()),
  next_cursor: z.string().nullish(),
  has_more: z.boolean(),
  reset_required: z.boolean().default(false),
});

export const replayItem = z.object({ cursor: z.string(), json_payload: z.string() });
