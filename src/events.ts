// Yours: the event types that you know. Add one here, once, and `on`, `event.data`, validation and its fixture follow.
// Types that are not listed still arrive, with `data` as a plain object.
import { z } from 'zod';
import { define, integer, orElse } from './base/event-type.ts';

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
};
