// Events for tests, and the signed request that delivers an event. Types come from EventMap, data from the examples in
// src/events.ts. Each event has its own id and cursor, and happens a second after the event before.
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../base/clock.ts';
import { exampleOf, type EventMap } from '../../wire/event-map.ts';
import { nearestField } from '../../run/did-you-mean.ts';
import { signedHeaders } from '../../wire/sign.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../wire/event.ts';
import { T0 } from './clock.ts';

type DataOf<Type> = Type extends keyof EventMap ? EventMap[Type] : Record<string, unknown>;

export interface Fixture<Type extends string = string> {
  id: string;
  type: Type;
  /** Null for webhook.ping and for the kit's own events. */
  cursor: string | null;
  sessionId: string | null;
  /** ISO 8601, UTC. */
  createdAt: string;
  /** `replay` is for events that webhooks missed. */
  origin: 'webhook' | 'replay';
  data: DataOf<Type>;
}

export type Overrides<Type extends string> = Partial<Omit<Fixture<Type>, 'type' | 'data'>> & {
  data?: Partial<DataOf<Type>>;
};

const SESSION = '00000000-0000-4000-8000-000000000001';
const SECRET = 'whsec_of_the_fixtures';
/** Counts up through a test file, so that no two fixtures are the same event. */
let made = 0;

export function fixture<Type extends keyof EventMap | (string & {})>(
  type: Type,
  { data, ...overrides }: Overrides<Type> = {},
): Fixture<Type> {
  const n = ++made;
  const defaults = {
    id: `event-${n}`,
    cursor: /^(webhook\.ping$|kit\.)/.test(type) ? null : String(1_000 + n),
    sessionId: SESSION,
    createdAt: new Date(T0 + n * 1_000).toISOString(),
    origin: 'webhook' as const,
  };
  for (const field of Object.keys(overrides))
    if (!Object.hasOwn(defaults, field))
      throw new Error(`a fixture has no field ${field}: put it in data, as in { data: { ${field}: … } }`);
  const event = { ...defaults, ...overrides };
  const about = { n, session: event.sessionId ?? SESSION, at: Date.parse(event.createdAt) };
  for (const field of Object.keys(data ?? {})) {
    const near = nearestField(type, field);
    if (near) throw new Error(`${type} has no field ${field}: did you mean ${near}? If not, name it in src/events.ts`);
  }
  return { ...event, type, data: { ...exampleOf(type, about), ...data } as DataOf<Type> };
}

/** One delivery (contract 6.3). `at` is the time of signing in Unix milliseconds. Default: now. */
export function signedRequest(
  event: Fixture,
  { secret = SECRET, at = systemClock.now(), attempt = 1 }: { secret?: string; at?: number; attempt?: number } = {},
): { headers: Record<string, string>; body: Buffer } {
  const body = bodyOf(event);
  const { id, type } = event;
  const timestampSeconds = Math.floor(at / 1000);
  return {
    headers: signedHeaders({ body, secrets: [secret], type, id, deliveryId: randomUUID(), attempt, timestampSeconds }),
    body,
  };
}

/** The event as the group commit accepts it. */
export function readingOf(event: Fixture): Reading {
  if (event.origin === 'webhook') return readDelivery(bodyOf(event));
  return readItem('replay', event.cursor as Cursor, JSON.stringify({ [event.type]: event.data }));
}

function bodyOf({ id, type, createdAt, cursor, sessionId, data }: Fixture): Buffer {
  const named = type === 'webhook.ping' ? data : { [type]: data };
  const moment = { created_at: createdAt, cursor, session_id: sessionId };
  return Buffer.from(JSON.stringify({ id, type, ...moment, webhook_id: 'webhook-1', data: named }));
}
