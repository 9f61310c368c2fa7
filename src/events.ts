// Yours: the event types that you know. Add one here, once, and `on`, `event.data` and validation follow.
// Types that are not listed still arrive, with `data` as a plain object.
import { z } from 'zod';

export interface EventType<Data> {
  /** What `event.data` holds. Fields that are not named here are kept. */
  data: z.ZodType<Data>;
  /** The number (session) that the event belongs to. Default: `data.session_id`. */
  session?: (data: Record<string, unknown>) => unknown;
  /** When it happened, in Unix milliseconds. Default: `data.timestamp_unix_ms`. */
  time?: (data: Record<string, unknown>) => unknown;
  /** The conversation within the session: the default lane. Default: none, and the session is the lane. */
  conversation?: (data: Record<string, unknown>) => unknown;
}

/** Contract 6.4. The fields of MessageSent and MessageStatusUpdated are not shown there: name those that you rely on. */
export const eventTypes = {
  MessageReceived: define({
    data: z.looseObject({
      /** The number that received the message. */
      session_id: z.uuid(),
      /** Who wrote: an address of the messaging network. */
      from: z.string(),
      body: z.string(),
      message_id: z.string(),
      is_group: z.boolean(),
      timestamp_unix_ms: z.int(),
      message_type: z.string(),
      /** The name that the writer chose to show. */
      push_name: z.string(),
    }),
    conversation: (data) => data.from,
  }),
  MessageSent: define({ data: z.looseObject({}) }),
  MessageStatusUpdated: define({ data: z.looseObject({}) }),
  /** The test event that the service's dashboard sends. */
  'webhook.ping': define({ data: z.looseObject({ message: z.string() }) }),
  /** Raised by the kit: events of this stretch can no longer be fetched. Complete it by fetching what matters anew. */
  'kit.gap': define({
    data: z.looseObject({ gap: z.int(), after: z.string(), upTo: z.string().nullable(), reason: z.string() }),
  }),
};

export type EventMap = { [Type in keyof typeof eventTypes]: z.infer<(typeof eventTypes)[Type]['data']> };

function define<Data>(type: EventType<Data>): EventType<Data> {
  return type;
}
