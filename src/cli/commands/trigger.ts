// Sends signed events to the receiver, like the service. Use it to try a handler, or to test the receiver with
// duplicates, mixed order, wrong signatures and old deliveries.
import { randomUUID } from 'node:crypto';
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { nearestType } from '../../run/did-you-mean.ts';
import { number, parse, UsageError, webAddress, type Command } from '../lib/command.ts';
import { clean, count, fail, print, printJson } from '../lib/print.ts';
import { clock } from '../lib/store.ts';
import { deliver, isTls, loopbackUrl, TO_DELIVER } from '../lib/post.ts';
import { typeOf } from '../../wire/event-map.ts';
import { samples, type Sample } from '../lib/sample.ts';

/** All events are made before the first is sent, so their number is limited. */
const MOST = 10_000;

export default {
  summary: 'send signed events to the receiver',
  usage: `trigger <type> [--set data.body=hi …] [--repeat 3] [--shuffle] [--duplicate]
       [--bad-signature] [--old 400] [--url https://…] [--json]
  Sends the example of that type in src/events.ts. Each event says that the kit sent it.
  --set data.x=y   a field of its data; also id, created_at, session_id, webhook_id, cursor.
                   A cursor is data alone: the event has no place in history, its key is i:<id>
  --repeat n       n different events; a cursor that was set counts up
  --shuffle        in mixed order, their times ascending
  --duplicate      each event twice
  --bad-signature  signed with another secret: 401 is expected
  --old seconds    signed this long ago: 401 is expected beyond the tolerance`,
  async run(args) {
    const { values, positionals } = parse(args, {
      text: ['repeat', 'old', 'url'],
      flags: ['shuffle', 'duplicate', 'bad-signature', 'json'],
      lists: ['set'],
    });
    const [type] = positionals;
    if (!type || positionals.length > 1) throw new UsageError('one event type is needed, like MessageReceived');
    const repeat = number('--repeat', values.repeat) ?? 1;
    if (repeat > MOST) throw new UsageError(`--repeat takes ${MOST} at the most: run it again for more`);
    const old = number('--old', values.old) ?? 0;
    if (values.shuffle && repeat === 1) throw new UsageError('--shuffle needs --repeat 2 or more');
    const other = webAddress('--url', values.url);
    const events = samples(type, repeat, values.set ?? []);
    if (!typeOf(type)?.example) warnOf(type);
    const copies = values.duplicate ? events.flatMap((event) => [event, event]) : events;

    const config = loadConfig(readEnv(), { only: [...TO_DELIVER, 'TIMESTAMP_TOLERANCE_SECONDS'] });
    const forged = values['bad-signature'] ?? false;
    const secret = forged ? `whsec_${randomUUID()}` : (config.WEBHOOK_SECRET[0] ?? '');
    const expected = forged || old > config.TIMESTAMP_TOLERANCE_SECONDS ? 401 : 204;
    const url = other ?? loopbackUrl(config);
    const sent: { id: string; key: string; status: number }[] = [];
    for (const event of values.shuffle ? mixed(copies) : copies) {
      const { id } = event;
      const body = Buffer.from(JSON.stringify(event));
      const timestampSeconds = Math.floor(clock.now() / 1000) - old;
      const signed = { body, id, type, secret, prefix: config.WEBHOOK_HEADER_PREFIX, timestampSeconds };
      const { status, failure = '' } = await deliver(url, signed);
      if (status === 0) return unanswered(url, failure);
      const key = `i:${id}`;
      sent.push({ id, key, status });
      if (!values.json) print(`${status} for ${clean(`${type} ${key}`)}`);
    }

    const right = sent.filter(({ status }) => status === expected).length;
    if (values.json) printJson(sent);
    else if (sent.length > 1)
      print(`${count(repeat, 'event')} in ${sent.length} deliveries: ${right} answered ${expected}, as expected`);
    else if (expected === 204 && right) print(nextStep(sent[0]?.key ?? ''));
    return right === sent.length ? EXIT.done : EXIT.failed;
  },
} satisfies Command;

function warnOf(type: string): void {
  const near = nearestType(type);
  const meant = near && near !== type ? ` (did you mean ${near}?)` : '';
  process.stderr.write(`src/events.ts has no example of ${clean(type)}${meant}: its data hold only what --set names\n`);
}

function unanswered(url: string, failure: string): number {
  const remedy = isTls(failure)
    ? 'trust its certificate with NODE_EXTRA_CA_CERTS'
    : 'start the receiver with npm start, or name another with --url';
  return fail(`nothing answers at ${new URL(url).origin} (${failure}): ${remedy}`, EXIT.unreachable);
}

/** The command to type next. If DATABASE_URL was set for this command alone, the next one needs it too. */
function nextStep(key: string): string {
  const { DATABASE_URL: named } = process.env;
  // The address of a server holds a password.
  return `${named?.startsWith('sqlite:') ? `DATABASE_URL=${clean(named)} ` : ''}npx kit explain ${clean(key)}`;
}

/** A random order that differs from the given one. */
function mixed(events: Sample[]): Sample[] {
  const drawn = events
    .map((event) => ({ event, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => event);
  return drawn.every(({ id }, n) => id === events[n]?.id) ? drawn.toReversed() : drawn;
}
