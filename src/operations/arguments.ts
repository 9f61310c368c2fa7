// Arguments that operations share, parsed from text or JSON, and the filters of events and tasks.
import { z } from 'zod';
import { STATES } from '../store/counts.ts';
import { parseCursor } from '../wire/cursor.ts';

export const flag = z
  .preprocess((value) => (value === 'true' || value === '' ? true : value), z.boolean())
  .default(false);
export const limit = z.coerce.number().int().min(1).max(1_000).default(50).describe('at most this many rows');
export const cursorArg = z.string().refine((text) => parseCursor(text) !== undefined, 'must be a cursor: digits');
/** A date, or a date and time, in UTC if no zone is given. Parsed into Unix milliseconds. */
const timeArg = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })], 'must be a time, like 2026-01-31T12:00:00Z')
  .transform((text) => Date.parse(/T.*(Z|[+-]\d\d:\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`));
export const stateArg = z.enum(STATES);

const text = z.string().min(1).optional();
export const eventFilter = z.object({
  type: text.describe("the event's type"),
  session: text.describe("the event's session"),
  sender: text.describe('the sender, exactly as in the body'),
  text: text.describe('text anywhere in the body'),
  since: timeArg.optional().describe('received at this time or later'),
  until: timeArg.optional().describe('received at this time or before'),
  outcome: stateArg.optional().describe('only events with a task in this state'),
  before: z.coerce.number().int().optional().describe('only events with a lower seq'),
  limit,
});
export const taskFilter = z.object({
  handler: text.describe("the handler's name"),
  state: stateArg.optional(),
  type: text.describe("the event's type"),
  session: text.describe("the event's session"),
  error: text.describe('only tasks whose error begins like this'),
  event: text.describe('one event: its key, id or cursor'),
  limit,
});
