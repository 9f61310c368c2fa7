// Copies of a stored body: masked, as a curl command, and as a fixture. No copy contains a secret; curl reads it from
// the environment.
import { iso } from '../base/clock.ts';
import type { ShownEvent } from '../store/read.ts';
import { dataOfBody } from '../wire/event.ts';
import { DEFAULT_PREFIX, DELIVERY } from '../wire/headers.ts';
import { isObject, type Json } from '../wire/json.ts';

/** Bytes. A larger body is not shown, but it can be exported. */
const LARGEST = 256 * 1024;
const utf8 = new TextDecoder();

export function textOf(body: Uint8Array): string {
  return body.length > LARGEST ? `${body.length} bytes: too large to show` : utf8.decode(body);
}

/** The body with types and lengths instead of values. A field name stays if it has only letters, dots and `_`. */
export function maskedOf(body: Uint8Array): string {
  if (body.length > LARGEST) return `${body.length} bytes: too large to show`;
  return JSON.stringify(masked(JSON.parse(utf8.decode(body)) as Json), null, 2);
}

function masked(value: Json): Json {
  if (Array.isArray(value)) return value.length === 0 ? [] : [masked(value[0] ?? null), `… ${value.length} in all`];
  if (typeof value === 'string') return `text of ${value.length}`;
  if (!isObject(value)) return value === null ? null : typeof value;
  const names = Object.entries(value).map(([name, of], n) => [
    /^[A-Za-z_.]{1,60}$/.test(name) ? name : `field ${n + 1}`,
    masked(of),
  ]);
  return Object.fromEntries(names) as Json;
}

export type Copies = ReturnType<typeof copiesOf>;

export function copiesOf(event: ShownEvent, body: Uint8Array) {
  const received = textOf(body);
  if (body.length > LARGEST) {
    const tooLarge = `${received}; npx kit events --q ${event.key} --ndjson --bodies writes it`;
    return { text: tooLarge, curl: tooLarge, fixture: tooLarge };
  }
  const { id, cursor, type, sessionId, origin } = event;
  const createdAt = iso(event.createdAt);
  const data = dataOfBody(origin, type, body);
  const sent = origin === 'webhook' ? received : deliveryOf(event, data);
  const overrides = { ...(id ? { id } : {}), cursor, sessionId, ...(createdAt ? { createdAt } : {}), data };
  return {
    text: pretty(received),
    curl: `# WEBHOOK_SECRET=whsec_… in the environment, and WEBHOOK_HEADER_PREFIX where it is set
prefix="\${WEBHOOK_HEADER_PREFIX:-${DEFAULT_PREFIX}}"
body=${quoted(sent)}
at=$(date +%s)
signature=$(printf '%s.%s' "$at" "$body" | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" -hex | sed 's/^.* //')
curl -sS -X POST "\${URL:-http://localhost:3000/webhooks}" -H 'Content-Type: application/json' \\
  -H "\${prefix}${DELIVERY.timestamp}: $at" -H "\${prefix}${DELIVERY.signature}: v1=$signature" --data-binary "$body"`,
    fixture: `fixture(${JSON.stringify(type)}, ${JSON.stringify(overrides, null, 2)})`,
  };
}

/** The body of a delivery of this event, with these data (contract 6.3). */
export function deliveryOf(
  event: { id: string | null; cursor: string | null; type: string; sessionId: string | null; createdAt: number | null },
  data: object,
): string {
  const { id, cursor, type, sessionId, createdAt } = event;
  const envelope = { id: id ?? `copy-of-${cursor}`, type, created_at: iso(createdAt), cursor, session_id: sessionId };
  return JSON.stringify({ ...envelope, webhook_id: 'copy', data: type === 'webhook.ping' ? data : { [type]: data } });
}

/** Indents JSON. If parsing might change a number in it, the text stays as it was received. */
function pretty(text: string): string {
  const exact = JSON.stringify(JSON.parse(text), null, 2);
  return /\d{16}|\d[eE.]/.test(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '')) ? text : exact;
}

/** Quotes the text as one argument of a shell command. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
