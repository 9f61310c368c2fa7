// Yours: the event types that you know. Add one here, once, and `on`, `event.data`, validation and its fixture follow.
// Types that are not listed still arrive, with `data` as a plain object.
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

/**
 * Contract 6.4. Required is only what an event cannot be handled without: a field that is missing would make it a dead
 * letter. The fields of MessageSent and MessageStatusUpdated are not shown there: name those that you rely on.
 */
export const eventTypes = {
  MessageReceived: define({
    data: z.looseObject({
      /** string, UUID by its shape: the number (session) that received the message. */
      session_id: z.guid(),
      /** string: who wrote; an address of the messaging network. */
      from: z.string().min(1),
      /** string: the message's id. */
      message_id: z.string().min(1),
      /** string: what was written; empty where nothing was. */
      body: orElse(z.string(), ''),
      /** boolean: it was written in a group. */
      is_group: orElse(z.boolean(), false),
      /** integer: when it was written, Unix milliseconds; null where it does not say. */
      timestamp_unix_ms: orElse(integer(), null),
      /** string; the contract does not show its values. Null where it does not say. */
      message_type: orElse(z.string(), null),
      /** string: the name that the writer chose to show, or empty. Anyone can choose any. */
      push_name: orElse(z.string(), ''),
    }),
    conversation: (data) => data['from'],
    example: ({ n, session, at }) => ({
      session_id: session,
      from: '15550100',
      body: 'hello',
      message_id: `message-${n}`,
      is_group: false,
      timestamp_unix_ms: at,
      message_type: 'text',
      push_name: 'Ana',
    }),
  }),
  MessageSent: define({
    data: z.looseObject({}),
    example: ({ n, session, at }) => ({ session_id: session, message_id: `message-${n}`, timestamp_unix_ms: at }),
  }),
  MessageStatusUpdated: define({
    data: z.looseObject({}),
    example: ({ n, session, at }) => ({ session_id: session, message_id: `message-${n}`, timestamp_unix_ms: at }),
  }),
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

export type EventMap = { [Type in keyof typeof eventTypes]: z.infer<(typeof eventTypes)[Type]['data']> };

function define<Data>(type: EventType<Data>): EventType<Data> {
  return type;
}

/** A number that also comes as text: 64-bit fields do (contract 2.8). */
function integer(): z.ZodType<number> {
  const text = z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be an integer')
    .transform(Number)
    .pipe(z.int());
  return z.union([z.int(), text], 'must be an integer');
}

/** What a field is where it is missing or null. */
function orElse<Value, Fallback>(schema: z.ZodType<Value>, fallback: Fallback): z.ZodType<Value | Fallback> {
  return schema.nullish().transform((value) => value ?? fallback);
}
