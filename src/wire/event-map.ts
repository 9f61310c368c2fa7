// Every event type that the kit knows: those in src/events.ts and its own.
import type { z } from 'zod';
import type { EventType, Named } from '../base/define-event.ts';
import { eventTypes as yours } from '../events.ts';
import { kitEvents } from './kit-events.ts';

export const eventTypes = { ...yours, ...kitEvents };

/** The type of `data` for each event type. */
export type EventMap = { [Type in keyof typeof eventTypes]: Named<z.infer<(typeof eventTypes)[Type]['data']>> };

export function typeOf(type: string): EventType<unknown> | undefined {
  return Object.hasOwn(eventTypes, type) ? eventTypes[type as keyof typeof eventTypes] : undefined;
}
