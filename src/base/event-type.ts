// What the kit knows of an event type: how to read its data, its lane, and an example for tests.
import { z } from 'zod';

export interface EventType<Data> {
  /** Reads `event.data`: handlers get the result. Keep fields that are not named here (z.looseObject). */
  data: z.ZodType<Data>;
  /** What tests get from `fixture(type)`, so that a test names only the fields that it is about. */
  example?: (about: ExampleOf) => NoInfer<Data>;
  /** The number (session) that the event belongs to. Default: `data.session_id`. */
  session?: (data: Record<string, unknown>) => unknown;
  /** When it happened, in Unix milliseconds. Default: `data.timestamp_unix_ms`. */
  time?: (data: Record<string, unknown>) => unknown;
  /** The conversation within the session: the default lane. Default: none, and the session is the lane. */
  conversation?: (data: Record<string, unknown>) => unknown;
}

export interface ExampleOf {
  /** Another for each fixture: for ids. */
  n: number;
  /** An UUID. */
  session: string;
  /** When it happened, Unix milliseconds. */
  at: number;
}

export function define<Data>(type: EventType<Data>): EventType<Data> {
  return type;
}

/** A number that also comes as text: 64-bit fields do (contract 2.8). */
export function integer(): z.ZodType<number> {
  const text = z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be an integer')
    .transform(Number)
    .pipe(z.int());
  return z.union([z.int(), text], 'must be an integer');
}

/** What a field is where it is missing or null. */
export function orElse<Value, Fallback>(schema: z.ZodType<Value>, fallback: Fallback): z.ZodType<Value | Fallback> {
  return schema.nullish().transform((value) => value ?? fallback);
}
