// Every event type that the kit knows: those in src/events.ts, the service's test event, and the kit's own event.
import { z } from 'zod';
import { define, integer, orElse, type EventType } from '../base/define-event.ts';

/** The fault of src/events.ts. Undefined: none. With a fault, deliveries are taken, but every handler is left out. */
export let typesFault: unknown;
const none = (error: unknown) => ((typesFault = error), {} as typeof import('../events.ts'));
const { eventTypes: yours } = await import('../events.ts').catch(none);
if (!yours) typesFault ??= new Error('src/events.ts exports no eventTypes: put this export back');

const eventTypes = {
  ...yours,
  /** The test event that the service's dashboard sends (contract 6.3). */
  'webhook.ping': define({
    data: z.object({ message: orElse(z.string(), '') }),
    example: () => ({ message: 'a test' }),
  }),
  /**
   * A gap: the service can no longer replay the events in a range of cursors. Fetch the important ones in another way.
   * The first handler that completes this event closes the gap.
   */
  'kit.gap': define({
    data: z.object({
      /** The gap's number. */
      gap: integer(),
      /** The last cursor before the gap. */
      after: z.string(),
      /** The cursor after which events can be replayed again. Null: unknown. */
      upTo: z.string().nullable(),
      /** Why the events cannot be fetched. */
      reason: z.string(),
    }),
    example: () => ({ gap: 1, after: '1000', upTo: '2000', reason: 'the cursor has expired' }),
  }),
};

/** The type of `data` for each event type. */
export type EventMap = { [Type in keyof typeof eventTypes]: z.infer<(typeof eventTypes)[Type]['data']> };

export const knownTypes = (): string[] => Object.keys(eventTypes);

export function typeOf(type: string): EventType<unknown> | undefined {
  return Object.hasOwn(eventTypes, type) ? eventTypes[type as keyof typeof eventTypes] : undefined;
}
