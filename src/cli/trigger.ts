// Sends signed events to the receiver, as the service would: to see a handler at work without waiting for a stranger,
// and to see what the receiver does with copies, disorder, forgeries and old deliveries.
import { randomUUID } from 'node:crypto';
import { iso } from '../clock.ts';
import { loadConfig, readEnv, type Config } from '../config.ts';
import { EXIT } from '../errors.ts';
import { signedHeaders } from '../simulator/sign.ts';
import { parseCursor } from '../wire/cursor.ts';
import {
  clean,
  clock,
  count,
  fail,
  number,
  parse,
  print,
  printJson,
  UsageError,
  webAddress,
  type Command,
} from './command.ts';
import { isTls, loopbackUrl, post } from './post.ts';

const OPTIONS = {
  set: { type: 'string', multiple: true },
  repeat: { type: 'string' },
  shuffle: { type: 'boolean' },
  duplicate: { type: 'boolean' },
  'bad-signature': { type: 'boolean' },
  old: { type: 'string' },
  url: { type: 'string' },
  json: { type: 'boolean' },
} as const;

const command: Command = {
  summary: 'send signed events to the receiver',
  usage: `trigger <type> [--set data.body=hi …] [--set cursor=42] [--repeat 3] [--shuffle] [--duplicate] [--bad-signature] [--old 400] [--url https://…] [--json]
  --repeat n       n different events; a cursor that was set counts up
  --shuffle        in mixed order, their times ascending
  --duplicate      each of them twice
  --bad-signature  signed with another secret: 401 is right
  --old seconds    signed so long ago: beyond the tolerance 401 is right`,
  async run(args) {
    const { values, positionals } = parse(args, OPTIONS);
    const [type] = positionals;
    if (!type || positionals.length > 1) throw new UsageError('one event type is needed, like MessageReceived');
    const repeat = number('--repeat', values.repeat) ?? 1;
    const old = number('--old', values.old) ?? 0;
    if (values.shuffle && repeat === 1) throw new UsageError('--shuffle needs --repeat 2 or more');
    const other = webAddress('--url', values.url);
    const events = samples(type, repeat, values.set ?? []);
    const config = loadConfig(readEnv(), { only: NEEDED });
    const url = other ?? loopbackUrl(config);
    const secret = values['bad-signature'] ? `whsec_${randomUUID()}` : (config.WEBHOOK_SECRET[0] ?? '');
    const expected = values['bad-signature'] || old > config.TIMESTAMP_TOLERANCE_SECONDS ? 401 : 204;

    const copies = values.duplicate ? events.flatMap((event) => [event, event]) : events;
    const deliveries: { id: string; key: string; status: number }[] = [];
    for (const event of values.shuffle ? mixed(copies) : copies) {
      const body = Buffer.from(JSON.stringify(event));
      const headers = signedHeaders({
        body,
        secrets: [secret],
        type,
        id: event.id,
        deliveryId: randomUUID(),
        attempt: 1,
        timestampSeconds: Math.floor(clock.now() / 1000) - old,
        prefix: config.WEBHOOK_HEADER_PREFIX,
      });
      const { status, failure } = await post(url, body, headers);
      if (status === 0) {
        const remedy = isTls(failure ?? '')
          ? 'trust its certificate with NODE_EXTRA_CA_CERTS'
          : 'start the receiver with npm start, or name another with --url';
        return fail(`nothing answers at ${new URL(url).origin} (${failure}): ${remedy}`, EXIT.unreachable);
      }
      const key = event.cursor === null ? `i:${event.id}` : `c:${event.cursor}`;
      deliveries.push({ id: event.id, key, status });
      if (!values.json) print(`${status} for ${clean(`${type} ${key}`)}`);
    }
    const right = deliveries.filter(({ status }) => status === expected).length;
    if (values.json) printJson(deliveries);
    else if (deliveries.length > 1)
      print(
        `${count(repeat, 'event')} in ${deliveries.length} deliveries: ${right} answered ${expected}, as they should`,
      );
    else if (expected === 204 && right) print(`npx kit explain ${clean(deliveries[0]?.key ?? '')}`);
    return right === deliveries.length ? EXIT.done : EXIT.failed;
  },
};
export default command;

const NEEDED: (keyof Config)[] = [
  'WEBHOOK_SECRET',
  'PORT',
  'HOST',
  'WEBHOOK_PATH',
  'WEBHOOK_HEADER_PREFIX',
  'TIMESTAMP_TOLERANCE_SECONDS',
];

interface Sample {
  id: string;
  type: string;
  created_at: string | null;
  cursor: string | null;
  session_id: string | null;
  webhook_id: string;
  data: Record<string, unknown>;
}

/** Different events of one session, a millisecond apart, so that they share a lane. */
function samples(type: string, repeat: number, assignments: string[]): Sample[] {
  const session = randomUUID();
  const from = clock.now() - repeat;
  return Array.from({ length: repeat }, (_, n) => {
    const event = sample(type, session, from + n + 1);
    for (const assignment of assignments) assign(event, type, assignment);
    const cursor = parseCursor(event.cursor);
    if (cursor !== undefined) event.cursor = String(BigInt(cursor) + BigInt(n));
    if (n > 0 && assignments.some((one) => one.startsWith('id='))) event.id += `-${n + 1}`;
    return event;
  });
}

/** Without a cursor: an invented one could be a real event's, and the real event would then be taken for this one. */
function sample(type: string, session: string, at: number): Sample {
  const fields = {
    session_id: session,
    from: '15550100',
    body: 'a message that npx kit trigger made',
    message_id: randomUUID(),
    is_group: false,
    timestamp_unix_ms: at,
    message_type: 'text',
    push_name: 'Trigger',
  };
  return {
    id: `trigger_${randomUUID()}`,
    type,
    created_at: iso(at),
    cursor: null,
    session_id: type === 'webhook.ping' ? null : session,
    webhook_id: 'trigger',
    data: type === 'webhook.ping' ? { message: 'a test' } : { [type]: fields },
  };
}

/** In an order that is not the one they came in. */
function mixed(events: Sample[]): Sample[] {
  const drawn = events
    .map((event) => ({ event, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => event);
  return drawn.every(({ id }, n) => id === events[n]?.id) ? drawn.toReversed() : drawn;
}

/** `data.body=hi` sets a field of the event's data, `cursor=42` one of the envelope; JSON where it is JSON. */
function assign(event: Sample, type: string, assignment: string): void {
  const [, path, text] = /^([\w.]+)=(.*)$/s.exec(assignment) ?? [];
  if (!path || text === undefined) throw new UsageError(`--set takes path=value, like data.body=hi, not ${assignment}`);
  const value = path === 'cursor' || path === 'id' ? text : valueOf(text);
  const [first, field, ...deeper] = path.split('.');
  if (first === 'data' && field && deeper.length === 0) {
    const fields = type in event.data ? (event.data[type] as Record<string, unknown>) : event.data;
    fields[field] = value;
  } else if (first && first in event && !field && first !== 'data' && first !== 'type') {
    Object.assign(event, { [first]: value });
  } else throw new UsageError(`--set ${path}: name id, cursor, created_at, session_id, webhook_id, or data.<field>`);
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
