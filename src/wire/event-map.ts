// Every event type that the kit knows: those in src/events.ts and its own.
import type { z } from 'zod';
import type { EventType, ExampleOf, Named } from '../base/define-event.ts';
import { eventTypes as yours } from '../events.ts';
import { kitEvents } from './kit-events.ts';

export const eventTypes = { ...yours, ...kitEvents };

/** The type of `data` for each event type. */
export type EventMap = { [Type in keyof typeof eventTypes]: Named<z.infer<(typeof eventTypes)[Type]['data']>> };

export function typeOf(type: string): EventType<unknown> | undefined {
  return Object.hasOwn(eventTypes, type) ? eventTypes[type as keyof typeof eventTypes] : undefined;
}

/** Data of an event that nobody sent, for `trigger`, `fixture` and the like. Undefined: the type has no example. */
export function exampleOf(type: string, about: ExampleOf): Record<string, unknown> | undefined {
  return typeOf(type)?.example?.(about) as Record<string, unknown> | undefined;
}
