// An event type: how its data are parsed, which session, time and conversation the data name, and an example for tests.
import { z } from 'zod';

export interface EventType<Data> {
  /** Parses `event.data`. Top-level fields that you do not name stay there, but have no type. */
  data: z.ZodType<Data>;
  /** Example data for `fixture(type)`: a test then names only the fields that matter to it. */
  example?: (about: ExampleOf) => NoInfer<Data>;
  /** The session (phone number) that the event belongs to. Default: `data.session_id`. */
  session?: (data: Record<string, unknown>) => unknown;
  /** When the event happened, Unix milliseconds. Default: `data.timestamp_unix_ms`. */
  time?: (data: Record<string, unknown>) => unknown;
  /** The conversation within the session: it is the default lane. Without this function, the session is the lane. */
  conversation?: (data: Record<string, unknown>) => unknown;
}

export interface ExampleOf {
  /** A number that differs for each fixture: use it in ids. */
  n: number;
  /** A UUID. */
  session: string;
  /** When the event happened, Unix milliseconds. */
  at: number;
}

export function define<Data>(type: EventType<Data>): EventType<Data> {
  return type;
}

/** An integer that may also arrive as text, as 64-bit fields do (contract 2.8). */
export function integer(): z.ZodType<number> {
  const text = z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be an integer')
    .transform(Number)
    .pipe(z.int());
  return z.union([z.int(), text], 'must be an integer');
}

/** Makes a field optional: `fallback` stands in for a missing field or null. */
export function orElse<Value, Fallback>(schema: z.ZodType<Value>, fallback: Fallback): z.ZodType<Value | Fallback> {
  return schema.nullish().transform((value) => value ?? fallback);
}
