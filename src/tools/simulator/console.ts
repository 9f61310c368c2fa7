// What a person who rehearses may tell the double, a line at a time; each is answered in a few readable lines.
import { Refusal } from './refusal.ts';
import type { Key } from './keys.ts';
import type { SimulatedService } from './service.ts';
import type { Webhook } from './webhook.ts';

interface Command {
  usage: string;
  does: string;
  run(...words: string[]): string | Promise<string>;
}

const SEND_AT_MOST = 10_000;

/** What to say to one line; never throws for what a person may type. */
export function createConsole(service: SimulatedService, key: Key): (line: string) => Promise<string> {
  const { webhooks, history, keys, chaos } = service;

  /** The one that was registered last. */
  function current(): Webhook {
    const webhook = webhooks.all().at(-1);
    if (!webhook) throw new Wrong('no webhook is registered: register <url>');
    return webhook;
  }

  async function register(url = ''): Promise<string> {
    if (!url) throw new Wrong('which address? register <url>');
    const { webhook, secret } = await webhooks.register(key, { url });
    return [
      `registered ${webhook.url} for ${webhook.events.join(', ')}`,
      `  WEBHOOK_SECRET=${secret}`,
      '  Shown once, here: put it into .env.',
    ].join('\n');
  }

  async function send(...words: string[]): Promise<string> {
    const [count = '1', type = 'MessageReceived'] = /^\d/.test(words[0] ?? '') ? words : ['1', ...words];
    const n = Number(count);
    if (!Number.isInteger(n) || n < 1 || n > SEND_AT_MOST) throw new Wrong(`send 1 to ${SEND_AT_MOST} events`);
    const events = service.happen(n, type);
    const chosen = webhooks.all().filter((one) => one.state() === 'enabled' && one.events.includes(type)).length;
    return `${n} × ${type} happened, cursor ${events.at(-1)?.cursor}: webhooks that take it: ${chosen}; log shows how it goes`;
  }

  function rotate(when?: string): string {
    if (when !== undefined && when !== 'now') throw new Wrong('rotate, or rotate now');
    const secret = current().rotate({ grace: when !== 'now' });
    return [
      `  WEBHOOK_SECRET=${secret}`,
      when === 'now'
        ? '  Shown once. The old secret signs nothing any more.'
        : '  Shown once. For 24 h deliveries carry both signatures; WEBHOOK_SECRET takes both, comma-separated.',
    ].join('\n');
  }

  function changeKey(what?: string, how?: string): string {
    const [number] = history.numbers;
    if (what === 'revoke') {
      keys.revoke(key);
      return 'revoked, for ever: calls get 401, streams end, deliveries stop. Start anew for another key.';
    }
    if (what !== 'restrict' || !number || (how !== undefined && how !== 'off'))
      throw new Wrong('key revoke, or key restrict [off]');
    service.replay.filterAfterLimit = how === undefined;
    keys.edit(key, { numbers: how === undefined ? [number] : undefined });
    return how === undefined
      ? `the key reaches ${number} alone; ReplayEvents leaves the rest out after the limit: pages can be empty, and say that there is more`
      : 'the key reaches all numbers';
  }

  function bare(what?: string): string {
    if (what !== 'on' && what !== 'off') throw new Wrong('bare on, or bare off');
    history.bare(what === 'on');
    return what === 'on'
      ? 'types other than MessageReceived name neither session nor time in their data; a webhook tells both beside it'
      : 'every type names its session and time in its data';
  }

  function expire(): string {
    const last = history.all().at(-1)?.cursor;
    if (!last) return 'nothing has happened yet';
    history.expireUpTo(last);
    return `forgotten up to cursor ${last}: ReplayEvents from there answers reset_required`;
  }

  function turn(what?: string): string {
    if (what !== 'on' && what !== 'off') throw new Wrong('chaos on, or chaos off');
    chaos.turn(what === 'on');
    return what === 'on' ? 'chaos: deliveries and answers go wrong by the seed' : 'calm';
  }

  const commands: Record<string, Command> = {
    register: { usage: 'register <url>', does: 'registers a webhook and shows its secret once', run: register },
    ping: {
      usage: 'ping',
      does: 'sends the test event, once a minute',
      run() {
        void webhooks.ping(current());
        return 'sent; each attempt is shown here';
      },
    },
    send: { usage: 'send [n] [type]', does: 'lets events happen', run: send },
    rotate: { usage: 'rotate [now]', does: 'a new secret; the old one signs along for 24 h, unless now', run: rotate },
    disable: {
      usage: 'disable',
      does: 'no deliveries',
      run() {
        current().disable();
        return 'disabled: nothing is delivered, and nothing of this time will be';
      },
    },
    enable: {
      usage: 'enable',
      does: 'deliveries again, from now on',
      run() {
        current().enable();
        return 'enabled, without backfill: what it missed is shown by ReplayEvents alone';
      },
    },
    log: { usage: 'log', does: 'the last deliveries', run: () => webhooks.all().map(logOf).join('\n') || 'no webhook' },
    key: {
      usage: 'key revoke|restrict',
      does: 'revokes the API key, or shows it one number alone, filtered after the limit; key restrict off',
      run: changeKey,
    },
    bare: { usage: 'bare on|off', does: 'events without session and time in their data', run: bare },
    expire: { usage: 'expire', does: 'forgets all that happened', run: expire },
    chaos: { usage: 'chaos on|off', does: 'drops, doubles, delays, forges; faults of the API', run: turn },
    help: { usage: 'help', does: 'this', run: () => Object.values(commands).map(helpOf).join('\n') },
  };

  return async (line) => {
    const [name = '', ...words] = line.trim().split(/\s+/);
    if (!name) return '';
    try {
      if (!Object.hasOwn(commands, name)) throw new Wrong('no such command: help shows them');
      return (await commands[name]?.run(...words)) ?? '';
    } catch (error) {
      if (error instanceof Refusal) return `refused: ${error.status} ${error.reason ?? error.code}: ${error.message}`;
      if (error instanceof Wrong) return error.message;
      throw error;
    }
  };
}

/** What a person should have typed instead. */
class Wrong extends Error {}

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

function helpOf({ usage, does }: Command): string {
  return `  ${usage.padEnd(21)}${does}`;
}
