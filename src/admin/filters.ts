// What may be asked of events and tasks, in an address or a form: the same for pages and programs.
import { z } from 'zod';
import { timeOf } from '../base/clock.ts';
import type { EventFilter } from '../store/read.ts';

const LIMIT = { default: 50, most: 500 };
export const count = z.coerce.number().int().min(1);
const limit = count.max(LIMIT.most).default(LIMIT.default);
export const taskState = z.enum(['held', 'ready', 'running', 'done', 'skipped', 'dead']);
export const origin = z.enum(['webhook', 'replay', 'stream', 'kit']);
const time = z
  .string()
  .transform((text) => timeOf(text))
  .refine((ms) => ms !== undefined, 'must be a time like 2026-01-31 or 2026-01-31T12:00:00Z');

const eventQuery = z.object({
  type: z.string().optional(),
  session: z.string().optional(),
  origin: origin.optional(),
  handler: z.string().optional(),
  state: taskState.optional(),
  contradicted: z.stringbool().optional(),
  since: time.optional(),
  until: time.optional(),
  q: z.string().max(200).optional(),
  before: count.optional(),
  limit,
});
const taskQuery = z.object({
  state: taskState.optional(),
  handler: z.string().optional(),
  group: count.optional(),
  before: count.optional(),
  limit,
});
export const selection = z
  .strictObject(
    {
      ids: z.array(z.int()).min(1).max(10_000).optional(),
      filter: z
        .strictObject({
          state: taskState.optional(),
          handler: z.string().optional(),
          group: z.int().min(1).optional(),
        })
        .optional(),
      reason: z.string().optional(),
    },
    'must be { "ids": [...] } or { "filter": {...} }, and a reason to discard',
  )
  .refine(({ ids, filter }) => (ids === undefined) !== (filter === undefined), 'give either ids or filter');
export const jobOrder = z
  .object({ action: z.enum(['retry', 'discard']) })
  .loose()
  .transform(({ action, ...rest }) => ({ action, ...selection.parse(rest) }))
  .refine(({ action, reason }) => action === 'retry' || reason, 'to discard, a reason is required');

type Query = NodeJS.Dict<string | string[]>;

/** Forms send what was left empty as well. */
function given(query: Query): Query {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
}

/** What is wrong with a request, for who sent it. */
export function faultsOf({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ');
}

/** Throws ZodError. */
export const eventFilterOf = (query: Query): EventFilter => eventQuery.parse(given(query));
export const taskFilterOf = (query: Query): z.infer<typeof taskQuery> => taskQuery.parse(given(query));
