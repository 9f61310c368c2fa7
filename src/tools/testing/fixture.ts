// Events for tests, with data from the examples in src/events.ts; the signed request that delivers one; and the clock.
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../base/clock.ts';
import type { EventName, EventOf } from '../../kit.ts';
import { Refused } from '../../operations/define.ts';
import { signedHeaders, type Signing } from '../../service/sign.ts';
import { typeOf } from '../../wire/event-types.ts';
import type { SimulatedEvent } from '../simulator/history.ts';

export interface Fixture<Type extends string = string> extends Omit<SimulatedEvent, 'type' | 'data'> {
  type: Type;
  /** `replay` is for events that webhooks missed. */
  origin: 'webhook' | 'replay';
  data: EventOf<Type>['data'];
}

export type Overrides<Type extends string> = Partial<Omit<Fixture<Type>, 'type' | 'data'>> & {
  data?: Partial<EventOf<Type>['data']>;
};

const T0 = Date.UTC(2026, 0, 1);
const SESSION = '00000000-0000-4000-8000-000000000001';
let made = 0;

export type TestClock = ReturnType<typeof createClock>;

/** A clock that stands still until a test, or `deliver`, sets `at`, in Unix milliseconds. */
export function createClock(at: number | string = T0) {
  const clock = { at: typeof at === 'number' ? at : Date.parse(at), now: () => clock.at, monotonic: () => clock.at };
  return clock;
}

/** Each event has its own id, and happens a second after the last. Throws if a field of `data` is not in its type. */
export function fixture<Type extends EventName | (string & {})>(
  type: Type,
  { data, ...overrides }: Overrides<Type> = {},
): Fixture<Type> {
  const n = ++made;
  const cursor = /^(webhook\.ping$|kit\.)/.test(type) ? null : String(1_000 + n);
  const createdAt = new Date(T0 + n * 1_000).toISOString();
  const defaults = { id: `event-${n}`, cursor, sessionId: SESSION, createdAt, origin: 'webhook' as const };
  const beside = Object.keys(overrides).find((field) => !Object.hasOwn(defaults, field));
  if (beside) throw new Refused(`a fixture has no field ${beside}: put it in data, as in { data: { ${beside}: … } }`);
  const event = { ...defaults, ...overrides };
  const known = typeOf(type);
  const names = Object.keys((known?.data as { shape?: object } | undefined)?.shape ?? {});
  const unknown = Object.keys(data ?? {}).find((field) => names.length > 0 && !names.includes(field));
  if (unknown) throw new Refused(`${type} in src/events.ts has no field ${unknown}: it has ${names.join(', ')}`);
  const about = { n, session: event.sessionId ?? SESSION, at: Date.parse(event.createdAt) };
  return { ...event, type, data: { ...(known?.example?.(about) as object), ...data } as Fixture<Type>['data'] };
}

/** The request of one delivery (contract 6.3). `at` is the time of signing in Unix milliseconds. Default: now. */
export function signedRequest(
  { id, type, createdAt: created_at, cursor, sessionId: session_id, data }: Fixture,
  options: Partial<Pick<Signing, 'attempt' | 'prefix'>> & { secret?: string; at?: number } = {},
): { headers: Record<string, string>; body: Buffer } {
  const { secret = 'whsec_of_the_fixtures', at = systemClock.now(), ...more } = options;
  const event = { id, type, created_at, cursor, session_id, webhook_id: 'webhook-1' };
  const body = Buffer.from(JSON.stringify({ ...event, data: type === 'webhook.ping' ? data : { [type]: data } }));
  const signing = { attempt: 1, ...more, body, id, type, secrets: [secret], deliveryId: randomUUID() };
  return { headers: signedHeaders({ ...signing, timestampSeconds: Math.floor(at / 1_000) }), body };
}
