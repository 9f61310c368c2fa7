// Sends a signed event to the receiver, as the service would: to see a handler at work without waiting for a stranger.
import { randomUUID } from 'node:crypto';
import { loadConfig, readEnv } from '../config.ts';
import { EXIT } from '../errors.ts';
import { signedHeaders } from '../simulator/sign.ts';
import { clock, parse, print, printJson, UsageError, type Command } from './command.ts';

const command: Command = {
  summary: 'send a signed event to the receiver',
  usage: 'trigger <type> [--set data.body=hi …] [--set cursor=42] [--url http://…] [--json]',
  async run(args) {
    const { values, positionals } = parse(args, {
      set: { type: 'string', multiple: true },
      url: { type: 'string' },
      json: { type: 'boolean' },
    });
    const [type] = positionals;
    if (!type || positionals.length > 1) throw new UsageError('one event type is needed, like MessageReceived');
    const config = loadConfig(readEnv(), { only: ['WEBHOOK_SECRET', 'PORT', 'WEBHOOK_PATH', 'WEBHOOK_HEADER_PREFIX'] });
    const url = values.url ?? `http://127.0.0.1:${config.PORT}${config.WEBHOOK_PATH}`;
    const event = sample(type);
    for (const assignment of values.set ?? []) assign(event, type, assignment);

    const body = Buffer.from(JSON.stringify(event));
    const headers = signedHeaders({
      body,
      secrets: config.WEBHOOK_SECRET.slice(0, 1),
      type,
      id: event.id,
      deliveryId: randomUUID(),
      attempt: 1,
      timestampSeconds: Math.floor(clock.now() / 1000),
      prefix: config.WEBHOOK_HEADER_PREFIX,
    });
    const status = await post(url, body, headers);
    if (status === undefined) {
      process.stderr.write(
        `nothing answers at ${url}: start the receiver with npm start, or name another with --url\n`,
      );
      return EXIT.unreachable;
    }
    if (values.json) printJson({ id: event.id, status });
    else print(`${status} for ${type} i:${event.id}${status === 204 ? `: npx kit explain ${event.id}` : ''}`);
    return status >= 200 && status < 300 ? EXIT.done : EXIT.failed;
  },
};
export default command;

interface Sample {
  id: string;
  type: string;
  created_at: string;
  cursor: string | null;
  session_id: string | null;
  webhook_id: string;
  data: Record<string, unknown>;
}

/** Without a cursor: an invented one could be a real event's, and the real event would then be taken for this one. */
function sample(type: string): Sample {
  const session = randomUUID();
  const fields = {
    session_id: session,
    from: '15550100',
    body: 'a message that npx kit trigger made',
    message_id: randomUUID(),
    is_group: false,
    timestamp_unix_ms: clock.now(),
    message_type: 'text',
    push_name: 'Trigger',
  };
  return {
    id: `trigger_${randomUUID()}`,
    type,
    created_at: new Date(clock.now()).toISOString(),
    cursor: null,
    session_id: type === 'webhook.ping' ? null : session,
    webhook_id: 'trigger',
    data: type === 'webhook.ping' ? { message: 'a test' } : { [type]: fields },
  };
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

async function post(url: string, body: Buffer, headers: Record<string, string>): Promise<number | undefined> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: new Uint8Array(body),
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(10_000),
    });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}
