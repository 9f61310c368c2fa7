// Sends signed events to the receiver, as the service would: to see a handler at work without waiting for a stranger,
// and to see what the receiver does with copies, disorder, forgeries and old deliveries.
import { randomUUID } from 'node:crypto';
import { loadConfig, readEnv, type Config } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { nearestType } from '../../run/did-you-mean.ts';
import { signedHeaders } from '../../wire/sign.ts';
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
} from '../lib/command.ts';
import { isTls, loopbackUrl, post } from '../lib/post.ts';
import { hasExample, samples, type Sample } from '../lib/sample.ts';

/** They are made before the first is sent. */
const MOST = 10_000;

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
  usage: `trigger <type> [--set data.body=hi …] [--repeat 3] [--shuffle] [--duplicate]
       [--bad-signature] [--old 400] [--url https://…] [--json]
  Sends the example of that type in src/events.ts. Each event says that the kit sent it.
  --set data.x=y   a field of its data; also id, created_at, session_id, webhook_id, cursor.
                   A cursor is data alone: the event has no place in history, its key is i:<id>
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
    if (repeat > MOST) throw new UsageError(`--repeat takes ${MOST} at the most: run it again for more`);
    const old = number('--old', values.old) ?? 0;
    if (values.shuffle && repeat === 1) throw new UsageError('--shuffle needs --repeat 2 or more');
    const other = webAddress('--url', values.url);
    const events = samples(type, repeat, values.set ?? []);
    if (!hasExample(type)) {
      const near = nearestType(type);
      process.stderr.write(
        `src/events.ts has no example of ${clean(type)}${near && near !== type ? ` (did you mean ${near}?)` : ''}: its data hold what --set names, and no more\n`,
      );
    }
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
      const key = `i:${event.id}`;
      deliveries.push({ id: event.id, key, status });
      if (!values.json) print(`${status} for ${clean(`${type} ${key}`)}`);
    }
    const right = deliveries.filter(({ status }) => status === expected).length;
    if (values.json) printJson(deliveries);
    else if (deliveries.length > 1)
      print(
        `${count(repeat, 'event')} in ${deliveries.length} deliveries: ${right} answered ${expected}, as they should`,
      );
    else if (expected === 204 && right) {
      // Named for this command alone, the store is not that of the next one.
      const { DATABASE_URL: named } = process.env;
      print(`${named ? `DATABASE_URL=${clean(named)} ` : ''}npx kit explain ${clean(deliveries[0]?.key ?? '')}`);
    }
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

/** In an order that is not the one they came in. */
function mixed(events: Sample[]): Sample[] {
  const drawn = events
    .map((event) => ({ event, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => event);
  return drawn.every(({ id }, n) => id === events[n]?.id) ? drawn.toReversed() : drawn;
}
