// The filters for events and tasks, shared by URL queries, forms, JSON bodies and command-line options.
import { z } from 'zod';
import { timeOf } from '../base/clock.ts';
import type { EventFilter, TaskFilter } from '../store/read.ts';

const LIMIT = { default: 50, most: 500 };
const STATES = ['held', 'ready', 'running', 'done', 'skipped', 'dead'] as const;
const ORIGINS = ['webhook', 'replay', 'stream', 'kit'] as const;
export const taskState = z.enum(STATES, `must be one of ${STATES.join(', ')}`);
export const origin = z.enum(ORIGINS, `must be one of ${ORIGINS.join(', ')}`);
/** A whole number above zero, given as text. */
export const wholeNumber = z
  .string()
  .regex(/^[1-9]\d{0,15}$/, 'must be a whole number above zero')
  .transform(Number);
const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000 };
/** A duration, given as text. Its output is in milliseconds. */
export const duration = z
  .string()
  .regex(/^[1-9]\d{0,4}[mhd]$/, 'must be a duration like 30m, 6h or 2d')
  .transform((text) => Number.parseInt(text, 10) * UNITS[text.slice(-1) as keyof typeof UNITS]);
const time = z
  .string()
  .transform((text) => timeOf(text))
  .refine((ms) => ms !== undefined, 'must be a time like 2026-01-31 or 2026-01-31T12:00:00Z');

export const eventQuery = z.object({
  type: z.string().optional(),
  session: z.string().optional(),
  origin: origin.optional(),
  handler: z.string().optional(),
  state: taskState.optional(),
  contradicted: z.union([z.boolean(), z.stringbool()]).optional(),
  unseen: z.union([z.boolean(), z.stringbool()]).optional(),
  since: time.optional(),
  until: time.optional(),
  q: z.string().max(200).optional(),
  before: wholeNumber.optional(),
});
export const taskQuery = z.object({
  state: taskState.optional(),
  handler: z.string().optional(),
  group: wholeNumber.optional(),
  'older-than': duration.optional(),
  before: wholeNumber.optional(),
});
const paged = { limit: wholeNumber.pipe(z.number().max(LIMIT.most)).default(LIMIT.default) };
const eventPage = eventQuery.extend(paged);
const taskPage = taskQuery.extend(paged);

export const selection = z
  .strictObject(
    {
      ids: z.array(z.int()).min(1).max(10_000).optional(),
      /** Done tasks with these ids. */
      state: z.literal('done').optional(),
      filter: z
        .strictObject({
          state: taskState.optional(),
          handler: z.string().optional(),
          group: z.int().min(1).optional(),
          receivedBefore: time.optional(),
        })
        .optional(),
      reason: z.string().optional(),
      shown: z.strictObject({ at: time, count: z.int().min(0).optional() }).optional(),
    },
    'must be { "ids": [...] } or { "filter": {...} }, and a reason to discard',
  )
  .refine(({ ids, filter }) => (ids === undefined) !== (filter === undefined), 'give either ids or filter')
  .refine(({ ids, state }) => ids !== undefined || state === undefined, 'state goes with ids, or into the filter');

type Query = NodeJS.Dict<string | string[]>;

/** Removes empty fields, because a form also sends the fields that nobody filled in. */
function given(query: Query): Query {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
}

/** Describes the faults of a request to its sender. */
export function faultsOf({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ');
}

/** Throws ZodError. */
export const eventFilterOf = (query: Query): EventFilter => eventPage.parse(given(query));
export function taskFilterOf(query: Query, now: number): TaskFilter & { limit: number } {
  const { limit, ...asked } = taskPage.parse(given(query));
  return { ...taskFilter(asked, now), limit };
}

/** The filter that these options ask for. */
export function taskFilter({ 'older-than': age, ...rest }: z.infer<typeof taskQuery>, now: number): TaskFilter {
  return age === undefined ? rest : { ...rest, receivedBefore: now - age };
}
