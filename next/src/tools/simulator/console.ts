// The commands of `npm run service`: each is one line of input, and an answer in words.
import { CALLS } from './api.ts';
import { STATUSES } from './refusal.ts';
import type { SimulatedService } from './service.ts';

/** Undefined: the words are wrong. */
type Run = (service: SimulatedService, ...words: string[]) => string | undefined;

const MOST = 1_000;

const COMMANDS: [usage: string, does: string, run: Run][] = [
  ['send [n] [type]', 'makes n events; alone, one MessageReceived', send],
  ['rate <n>', 'makes n events a minute from now on; 0 stops', rate],
  ['disable', 'switches the webhook off', ({ webhook }) => (webhook.disable(), 'the webhook is off')],
  ['enable', 'switches it on, for new events', ({ webhook }) => (webhook.enable(), 'the webhook is on')],
  ['rotate', 'a new secret; the old one also signs', ({ webhook }) => `WEBHOOK_SECRET=${webhook.rotate()}`],
  ['fault <status> [REASON] [call]', `the next call fails; calls: ${CALLS.join(', ')}`, fault],
  ['help', 'shows this list', () => COMMANDS.map(([usage, does]) => `  ${usage.padEnd(34)}${does}`).join('\n')],
];

export function answerTo(service: SimulatedService, line: string): string {
  const [name = '', ...words] = line.trim().split(/\s+/);
  const [usage = 'help', , run] = COMMANDS.find(([one]) => one.split(' ')[0] === name) ?? [];
  return run?.(service, ...words) ?? (name && `type ${usage}`);
}

function send({ emit, webhook }: SimulatedService, n = '1', type = 'MessageReceived'): string | undefined {
  if (!/^\d+$/.test(n) || Number(n) < 1 || Number(n) > MOST) return undefined;
  const cursor = emit(Number(n), type).at(-1)?.cursor;
  return `${n} × ${type}, last cursor ${cursor ?? 'none'}; the webhook is ${webhook.state()}`;
}

function rate(service: SimulatedService, n = ''): string | undefined {
  return /^\d+$/.test(n) ? (service.rate(Number(n)), `${n} events a minute`) : undefined;
}

function fault({ faults }: SimulatedService, status = '', ...words: string[]): string | undefined {
  const call = words.find((word) => CALLS.includes(word));
  const reason = words.find((word) => /^[A-Z_]+$/.test(word));
  if (!STATUSES.includes(status) || words.some((word) => word !== call && word !== reason)) return undefined;
  faults.push({ status: Number(status), reason, call });
  return `the next call${call ? ` of ${call}` : ''} fails with ${status}`;
}
