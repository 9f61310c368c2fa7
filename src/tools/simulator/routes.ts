// The routes outside /rpc and /events (contract 4.3): sends, quotes, media and the pairing of numbers. If the contract
// does not show the shape of an answer, the simulator uses the simplest shape that the contract allows, and says so.
import { z } from 'zod';
import type { Billing } from './billing.ts';
import type { Answer } from './faults.ts';
import type { Inbox } from './inbox.ts';
import type { Key, Keys } from './keys.ts';
import type { ACCOUNT_LIMITS } from './limits.ts';
import type { Item } from './paging.ts';
import type { Random } from '../random.ts';
import { Refusal } from './refusal.ts';
import { valid } from './valid.ts';

export interface Route {
  /** Method and path (contract 4.3). */
  route: string;
  of: keyof typeof ACCOUNT_LIMITS;
  scopes: string[];
  /** The size limit of the body in bytes. 0: no body is read. */
  bytes: number;
  /** The route costs money: the names that a quote may give it. */
  paid?: string[];
  /** Checks the call before it is paid for and carried out. Throws Refusal. */
  check?(call: Item, key: Key): void;
  answer(call: Item, path: string, key: Key): Answer;
}

/** The contract does not show under which name a send is quoted. */
export const SEND = ['messages/send', 'SendMessage'];
const MIB = 1024 * 1024;
const MEDIA_ID = 'a-picture';
/** Marks an answer that the contract does not show. */
export const INVENTED = { 'x-invented': 'true' };

/** Field names in snake_case (contract 7.4). */
export const fields = z.record(z.string().regex(/^[a-z0-9_]+$/), z.unknown());
const sending = z.looseObject({ request: fields });
const resuming = z.strictObject({ request: z.strictObject({ session_id: z.string() }) });

/** What a fault calls the route. */
export const pathOf = ({ route }: Route): string => route.replace(/^\w+ \/v1\//, '');

export interface RoutesOptions {
  keys: Keys;
  billing: Billing;
  inbox: Inbox;
  random: Random;
  /** The operations that need a quote. */
  paid: string[];
  /** Raises MessageSent. */
  onSent: (messageId: string, sessionId: unknown) => void;
}

export function createRoutes({ keys, billing, inbox, random, paid, onSent }: RoutesOptions): Route[] {
  return [
    {
      route: 'POST /v1/messages/send',
      of: 'rpc',
      scopes: ['messages:send'],
      bytes: 12 * MIB,
      paid: SEND,
      check(call, key) {
        const { session_id } = valid(sending, call, 'REQUEST_INVALID').request;
        if (session_id !== undefined) keys.reach(key, session_id);
      },
      answer({ request }) {
        const id = random.uuid();
        const message = request as Item;
        inbox.sent(id, message);
        onSent(id, message['session_id']);
        return { status: 200, headers: INVENTED, body: { message: { id } } };
      },
    },
    {
      route: 'POST /v1/billing/quotes',
      of: 'quotes',
      scopes: [],
      bytes: 12 * MIB,
      answer: (call) => ({ status: 200, headers: INVENTED, body: billing.quote(call, [...paid, ...SEND]) }),
    },
    {
      route: 'GET /v1/media/{id}',
      of: 'media',
      scopes: [],
      bytes: 0,
      answer(_, path) {
        if (!path.endsWith(`/${MEDIA_ID}`)) throw new Refusal(404, 'MEDIA_NOT_FOUND');
        return { status: 200, headers: { 'content-type': 'image/png' }, body: 'not much of a picture' };
      },
    },
    {
      route: 'POST /v1/sessions/resume',
      of: 'sessions',
      scopes: ['sessions:manage'],
      bytes: 4 * 1024,
      check: (call, key) => keys.reach(key, valid(resuming, call, 'REQUEST_INVALID').request.session_id),
      answer: (call) => progressOf(resuming.parse(call).request.session_id),
    },
    {
      route: 'POST /v1/sessions/create',
      of: 'sessions',
      scopes: ['sessions:manage'],
      bytes: 4 * 1024,
      answer(_, __, key) {
        const session_id = random.uuid();
        keys.addNumber(key, session_id);
        return progressOf(session_id, [{ event: 'qr', qr: { data: 'a pairing code' } }]);
      },
    },
  ];
}

/** The stream that reports how a number is paired or reconnected (contract 2.14). */
function progressOf(session_id: string, pairing: object[] = []): Answer {
  const messages = [
    { event: 'progress', progress: { stage: 'connecting', session_id } },
    ...pairing,
    { event: 'connected', connected: { phone: '15550100', connected_at_unix_ms: '1767225600000' } },
  ];
  const blocks = messages.map((message) => `event: message\ndata: ${JSON.stringify(message)}\n\n`);
  const body = `${blocks.join('')}event: end\ndata: {}\n\n`;
  return { status: 200, headers: { 'content-type': 'text/event-stream' }, body };
}
