// The commands that a person types into `npm run service`. Each line gets a short, readable answer.
import { helpOf, Wrong, type Rehearsal, type Usage } from './command.ts';
import { fault } from './fault-command.ts';
import { changeKey, KEY_COMMANDS } from './key-commands.ts';
import type { Key } from './keys.ts';
import { Refusal } from './refusal.ts';
import type { SimulatedService } from './service.ts';
import type { Webhook } from './webhook.ts';

interface Command extends Usage {
  /** More lines of the help. */
  more?: Usage[];
  run(rehearsal: Rehearsal, ...words: string[]): string | Promise<string>;
}

const SEND_AT_MOST = 10_000;

const COMMANDS: Record<string, Command> = {
  register: { usage: 'register <url>', does: 'registers a webhook and shows its secret once', run: register },
  ping: { usage: 'ping', does: 'sends the test event, once a minute', run: ping },
  send: { usage: 'send [n] [type]', does: 'creates events; default: 1 MessageReceived', run: send },
  rotate: {
    usage: 'rotate [now]',
    does: 'a new secret; for 24 h the old one also signs, except with now',
    run: rotate,
  },
  disable: { usage: 'disable', does: 'stops deliveries', run: disable },
  enable: { usage: 'enable', does: 'resumes deliveries, for new events', run: enable },
  log: { usage: 'log', does: 'the last deliveries', run: log },
  key: { usage: 'key', does: 'shows the settings of the API key', more: KEY_COMMANDS, run: changeKey },
  bare: { usage: 'bare on|all|off', does: 'events without session and time; all: nor in the webhook', run: bare },
  expire: { usage: 'expire [quotes]', does: 'expires all events, or all quotes', run: expire },
  balance: { usage: 'balance <n>', does: 'pays for n more operations, then 402', run: balance },
  fault: { usage: 'fault [<fault> [<call>]]', does: 'fails the next call, or that call; alone: lists all', run: fault },
  chaos: { usage: 'chaos on|off', does: 'faulty deliveries, bare events and faults of the API', run: turn },
  help: { usage: 'help', does: 'shows this list', run: help },
};

/** Returns a function that answers one typed line. Wrong input is answered with a message, and does not throw. */
export function createConsole(service: SimulatedService, key: Key): (line: string) => Promise<string> {
  const rehearsal = { service, key };
  return async (line) => {
    const [name = '', ...words] = line.trim().split(/\s+/);
    if (!name) return '';
    try {
      if (!Object.hasOwn(COMMANDS, name)) throw new Wrong('unknown command: type help for a list');
      return (await COMMANDS[name]?.run(rehearsal, ...words)) ?? '';
    } catch (error) {
      if (error instanceof Refusal) return refused(error);
      if (error instanceof Wrong) return error.message;
      throw error;
    }
  };
}

function refused({ status, reason, code, message }: Refusal): string {
  const name = reason ?? code;
  return `refused: ${status} ${name}${message === name ? '' : `: ${message}`}`;
}

async function register({ service, key }: Rehearsal, url = ''): Promise<string> {
  if (!url) throw new Wrong('missing address: register <url>');
  const { webhook, secret } = await service.webhooks.register(key, { url });
  return [
    `registered ${webhook.url} for ${webhook.events.join(', ')}`,
    `  WEBHOOK_SECRET=${secret}`,
    '  Shown once, here: put it into .env.',
  ].join('\n');
}

/** The webhook that was registered last. Throws Refusal 401 if its key was revoked. */
function current({ service, key }: Rehearsal): Webhook {
  service.keys.require(key, key.attributes.scopes);
  const webhook = service.webhooks.all().at(-1);
  if (!webhook) throw new Wrong('no webhook is registered: register <url>');
  return webhook;
}

function ping(rehearsal: Rehearsal): string {
  void rehearsal.service.webhooks.ping(current(rehearsal));
  return 'sent; each attempt is printed here';
}

function send({ service }: Rehearsal, ...words: string[]): string {
  const [count = '1', type = 'MessageReceived'] = /^[A-Za-z]/.test(words[0] ?? '') ? ['1', ...words] : words;
  if (type === 'webhook.ping') throw new Wrong('the test event is no part of the history: use ping');
  const n = Number(count);
  if (!Number.isInteger(n) || n < 1 || n > SEND_AT_MOST) throw new Wrong(`send 1 to ${SEND_AT_MOST} events`);
  const events = service.happen(n, type);
  const chosen = service.webhooks.all().filter((one) => one.state() === 'enabled' && one.events.includes(type)).length;
  return `${n} × ${type} created, last cursor ${events.at(-1)?.cursor}; webhooks for this type: ${chosen}; type log to follow the deliveries`;
}

function rotate(rehearsal: Rehearsal, when?: string): string {
  if (when !== undefined && when !== 'now') throw new Wrong('rotate, or rotate now');
  const secret = current(rehearsal).rotate({ grace: when !== 'now' });
  return [
    `  WEBHOOK_SECRET=${secret}`,
    when === 'now'
      ? '  Shown once. The old secret signs no more deliveries.'
      : '  Shown once. For 24 h deliveries carry both signatures; set WEBHOOK_SECRET to both secrets, comma-separated.',
  ].join('\n');
}

function disable(rehearsal: Rehearsal): string {
  current(rehearsal).disable();
  return 'disabled: events from now on are never delivered';
}

function enable(rehearsal: Rehearsal): string {
  current(rehearsal).enable();
  return 'enabled, without backfill: only ReplayEvents shows the missed events';
}

function log({ service }: Rehearsal): string {
  return service.webhooks.all().map(logOf).join('\n') || 'no webhook';
}

function logOf(webhook: Webhook): string {
  const lines = webhook
    .log()
    .slice(0, 10)
    .map((entry) => {
      const times = `${entry.attempts} attempt${entry.attempts === 1 ? '' : 's'}`;
      return `  ${entry.at}  ${String(entry.answer ?? '-').padEnd(4)}  ${times}  ${entry.outcome}  ${entry.type}`;
    });
  return [`${webhook.url} is ${webhook.state()}; the last deliveries, newest first:`, ...lines].join('\n');
}

function bare({ service }: Rehearsal, what?: string): string {
  if (what !== 'on' && what !== 'all' && what !== 'off') throw new Wrong('bare on, bare all, or bare off');
  service.history.bare(what);
  if (what === 'off') return 'data of every type has its session and time';
  const envelope = what === 'on' ? 'has both' : 'has no session either';
  return `data of types other than MessageReceived has no session and time; the envelope of a webhook ${envelope}`;
}

function expire({ service: { history, billing } }: Rehearsal, what?: string): string {
  if (what === 'quotes') {
    billing.expire();
    return 'all quotes have expired: they are answered with 409 BILLING_QUOTE_EXPIRED';
  }
  if (what !== undefined) throw new Wrong('expire, or expire quotes');
  const last = history.all().at(-1)?.cursor;
  if (!last) return 'nothing has happened yet';
  history.expireUpTo(last);
  return `expired up to cursor ${last}: ReplayEvents from there answers reset_required`;
}

function balance({ service }: Rehearsal, text = ''): string {
  if (!/^\d+$/.test(text)) throw new Wrong('balance <number of operations>, for example balance 0');
  service.billing.balance(Number(text));
  return `the balance pays for ${text} operations; then paid calls get 402 PAYMENT_REQUIRED`;
}

function turn({ service }: Rehearsal, what?: string): string {
  if (what !== 'on' && what !== 'off') throw new Wrong('chaos on, or chaos off');
  service.chaos.turn(what === 'on');
  return what === 'on' ? 'chaos is on: random faults in deliveries and answers, by the seed' : 'chaos is off';
}

function help(): string {
  return helpOf(Object.values(COMMANDS).flatMap(({ more = [], ...command }) => [command, ...more]));
}
