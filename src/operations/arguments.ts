// Arguments of operations, as text or JSON gives them, and what people may ask events and tasks for.
import { z } from 'zod';
import { parseCursor } from '../wire/cursor.ts';

export const flag = z
  .preprocess((value) => (value === 'true' || value === '' ? true : value), z.boolean())
  .default(false);
export const limit = z.coerce.number().int().min(1).max(1_000).default(50).describe('so many rows at most');
export const cursorArg = z.string().refine((text) => parseCursor(text) !== undefined, 'must be a cursor: digits');
/** A day, or a moment; without a zone in UTC. Unix milliseconds. */
export const timeArg = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })], 'must be a time, like 2026-01-31T12:00:00Z')
  .transform((text) => Date.parse(/T.*(Z|[+-]\d\d:\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`));
export const stateArg = z.enum(['waiting', 'done', 'skipped', 'dead']);
export const perMinute = z.coerce.number().int().min(1).max(60_000);

const text = z.string().min(1).optional();
export const eventFilter = z.object({
  type: text.describe('of the event'),
  session: text.describe('of the event'),
  sender: text.describe('exactly'),
  text: text.describe('anywhere in the body'),
  since: timeArg.optional().describe('received then or later'),
  until: timeArg.optional().describe('received then or before'),
  outcome: stateArg.optional().describe('of any handler'),
  before: z.coerce.number().int().optional().describe('the number of an event: older ones'),
  limit,
});
export const taskFilter = z.object({
  handler: text.describe('its name'),
  state: stateArg.optional(),
  type: text.describe('of the event'),
  session: text.describe('of the event'),
  error: text.describe('how it begins'),
  event: text.describe('its key, id or cursor'),
  limit,
});
