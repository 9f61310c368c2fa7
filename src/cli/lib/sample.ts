// The events that `trigger` sends: the example of their type in src/events.ts, changed by `--set`. Data that do not fit
// the schema of the type are refused before any event is sent.
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { iso } from '../../base/clock.ts';
import { orUndefined } from '../../base/errors.ts';
import { nearestField } from '../../run/did-you-mean.ts';
import { exampleOf, typeOf } from '../../wire/event-map.ts';
import { parseCursor } from '../../wire/cursor.ts';
import { factsOf, readDelivery, SENT_BY_KIT } from '../../wire/event.ts';
import type { JsonObject } from '../../wire/json.ts';
import { UsageError } from './command.ts';
import { clean, count } from './print.ts';
import { clock } from './store.ts';

/**
 * The body of a delivery (contract 6.3). `sent_by` marks it as the kit's own: the delivery does not count in the
 * failure run, and its cursor is ignored.
 */
export interface Sample {
  id: string;
  type: string;
  created_at: string | null;
  cursor: string | null;
  session_id: string | null;
  webhook_id: string;
  sent_by: typeof SENT_BY_KIT;
  data: object;
}

type Issue = z.core.$ZodIssue;

/** Ids of events that `trigger` sends begin with this. No id of the service does. */
const OURS = 'trigger_';

/** Different events of one session, a millisecond apart. Throws UsageError. */
export function samples(type: string, repeat: number, assignments: string[]): Sample[] {
  const { fields, envelope } = sort(assignments);
  const session = envelope.get('session_id') || randomUUID();
  const at = timeOf(envelope.get('created_at')) ?? clock.now() - repeat + 1;
  const cursor = cursorOf(envelope.get('cursor'), repeat);
  const named = envelope.get('id') ?? randomUUID();
  const id = named.startsWith(OURS) ? named : OURS + named;
  return Array.from({ length: repeat }, (_, n) => {
    const data = dataOf(type, session, at + n, fields);
    const facts = factsOf(type, data);
    const placeless = type === 'webhook.ping' || type.startsWith('kit.');
    return checked({
      id: n === 0 ? id : `${id}-${n + 1}`,
      type,
      created_at: envelope.get('created_at') === null ? null : iso(facts.createdAt ?? at + n),
      cursor: cursor === null ? null : String(cursor + BigInt(n)),
      session_id: envelope.get('session_id') === null || placeless ? null : (facts.sessionId ?? session),
      webhook_id: envelope.get('webhook_id') ?? 'trigger',
      sent_by: SENT_BY_KIT,
      data: type === 'webhook.ping' ? data : { [type]: data },
    });
  });
}

const ENVELOPE = ['id', 'cursor', 'created_at', 'session_id', 'webhook_id'];

/** `data.body=hi` sets a field of the event's data, `cursor=42` one of the envelope. */
function sort(assignments: string[]) {
  const fields = new Map<string, string>();
  const envelope = new Map<string, string | null>();
  for (const assignment of assignments) {
    const [, path, text] = /^([\w.]+)=(.*)$/s.exec(assignment) ?? [];
    if (!path || text === undefined)
      throw new UsageError(
        `--set takes path=value, like data.body=hi, not ${clean(assignment.replace(/=.*/s, '')).slice(0, 40)}: a path has letters, digits, _ and dots`,
      );
    const field = /^data\.(\w+)$/.exec(path)?.[1];
    if (field) fields.set(field, text);
    else if (ENVELOPE.includes(path)) envelope.set(path, text === 'null' ? null : text);
    else throw new UsageError(`--set ${path}: name ${ENVELOPE.join(', ')}, or data.<field>`);
  }
  return { fields, envelope };
}

function dataOf(type: string, session: string, at: number, set: Map<string, string>): JsonObject {
  const known = typeOf(type);
  let data = { ...exampleOf(type, { n: at, session, at }) } as JsonObject;
  // Entries instead of an assignment, because a field may be named __proto__.
  for (const [field, text] of set) {
    const near = nearestField(type, field);
    if (near)
      throw new UsageError(
        `${clean(type)} has no field ${field}: did you mean data.${near}? If not, name it in src/events.ts`,
      );
    data = Object.fromEntries([...Object.entries(data), [field, valueOf(type, data, field, text)]]) as JsonObject;
  }
  const issue = known?.data.safeParse(data).error?.issues[0];
  if (issue) throw faultOf(type, issue);
  return data;
}

/**
 * Reads the text as the value of this field. If the example has a string there, the text itself is tried before JSON.
 */
function valueOf(type: string, data: JsonObject, field: string, text: string): unknown {
  const json = jsonOf(text);
  const schema = typeOf(type)?.data;
  if (!schema) return json;
  const issueWith = (value: unknown): Issue | undefined => {
    const changed = Object.fromEntries([...Object.entries(data), [field, value]]);
    return schema.safeParse(changed).error?.issues.find(({ path }) => path[0] === field);
  };
  const isText = Object.hasOwn(data, field) && typeof data[field] === 'string';
  const found = (isText && json !== null ? [text, json] : [json, text]).find((value) => !issueWith(value));
  const issue = found === undefined && issueWith(isText ? text : json);
  if (issue) throw faultOf(type, issue);
  return found;
}

/** Parses JSON, or returns the text. Digits that a number would round also stay text. */
function jsonOf(text: string): unknown {
  const value = orUndefined(() => JSON.parse(text) as unknown);
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  return value === undefined || isRounded ? text : value;
}

/** The message names the field, the event type and the option. It leaves out the value, which may be personal. */
function faultOf(type: string, issue: Issue): UsageError {
  const [field = '<field>'] = issue.path;
  const place = ['data', ...issue.path].join('.');
  const words = `${clean(place)} of ${clean(type)} ${wordingOf(issue)}`;
  return new UsageError(
    `${words}, by its schema in src/events.ts: give it with --set data.${clean(String(field))}=VALUE`,
  );
}

const KINDS: Record<string, string> = {
  boolean: 'true or false',
  int: 'an integer',
  array: 'a list, written as JSON',
  object: 'an object, written as JSON',
  record: 'an object, written as JSON',
  uuid: 'a UUID',
  guid: 'a UUID',
};
/** The schema library's own messages begin like this. All other messages come from the user's schema. */
const LIBRARY = /^(Invalid|Too|Unrecognized)\b/;

function wordingOf(issue: Issue): string {
  if (!LIBRARY.test(issue.message)) return issue.message;
  const kind = (name: string): string => `must be ${KINDS[name] ?? `a ${name}`}`;
  switch (issue.code) {
    case 'invalid_type':
      return `${issue.message.endsWith('received undefined') ? 'is missing, and ' : ''}${kind(issue.expected)}`;
    case 'invalid_format':
      return issue.format === 'regex' ? `must match ${issue.pattern}` : kind(issue.format);
    case 'invalid_value':
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'invalid_union':
      return [...new Set(issue.errors.flat().map(wordingOf))].join(', or ') || 'does not fit';
    case 'too_small':
      return sizeOf(issue.origin, issue.minimum, 'more');
    case 'too_big':
      return sizeOf(issue.origin, issue.maximum, 'less');
    default:
      return 'does not fit';
  }
}

function sizeOf(origin: string, limit: number | bigint, side: string): string {
  if (origin === 'string') return `must have ${count(Number(limit), 'character')} or ${side}`;
  if (origin === 'array') return `must have ${count(Number(limit), 'item')} or ${side}`;
  return `must be ${limit} or ${side}`;
}

function cursorOf(text: string | null | undefined, repeat: number): bigint | null {
  if (text === undefined || text === null) return null;
  const first = BigInt(parseCursor(text) ?? -1);
  if (first < 0n || parseCursor(String(first + BigInt(repeat - 1))) === undefined)
    throw new UsageError(
      '--set cursor needs a decimal integer from 0 to 9223372036854775807, as does each of --repeat',
    );
  return first;
}

function timeOf(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null) return undefined;
  const time = Date.parse(text);
  if (iso(time) === null) throw new UsageError('--set created_at needs a time like 2026-01-31T12:00:00Z');
  return time;
}

/** Throws UsageError if the receiver could not read the event. */
function checked(sample: Sample): Sample {
  const reading = readDelivery(Buffer.from(JSON.stringify(sample)));
  if ('unreadable' in reading)
    throw new UsageError(
      `this could not be read as an event: ${reading.unreadable.reason}; change the type, or what --set names`,
    );
  return sample;
}
