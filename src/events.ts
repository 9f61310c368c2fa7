// This file is yours: it names event types. Add a type here, and `on`, `event.data`, validation and fixtures follow.
// Types that are not listed still arrive, with `data` as a plain object.
import { z } from 'zod';
import { define, integer, orElse } from './base/define-event.ts';

/**
 * The types of contract 6.4. A field is required only if no handler can work without it: if a required field is
 * missing, the event's tasks become dead letters. The contract does not show the fields of MessageSent and
 * MessageStatusUpdated: name the ones that you rely on.
 */
export const eventTypes = {
  MessageReceived: define({
    data: z.object({
      /** string, a UUID: the session (phone number) that received the message. */
      session_id: z.guid(),
      /** string: the sender's address in the messaging network. */
      from: z.string().min(1),
      /** string: the message's id. */
      message_id: z.string().min(1),
      /** string: the text of the message, or empty. */
      body: orElse(z.string(), ''),
      /** boolean: the message was written in a group. */
      is_group: orElse(z.boolean(), false),
      /** integer: when the message was written, Unix milliseconds. Null: not given. */
      timestamp_unix_ms: orElse(integer(), null),
      /** string: the contract does not show its values. Null: not given. */
      message_type: orElse(z.string(), null),
      /** string: the name that the sender chose to show, or empty. Anyone can choose any name. */
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
