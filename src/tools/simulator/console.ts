// The commands of `npm run service`: each is one line of input, and an answer in words.
import { CALLS } from './api.ts';
import { FAULTS, type Fault } from './faults.ts';
import { Refusal } from './refusal.ts';
import type { SimulatedService } from './service.ts';

/** Returns the answer. Undefined: the words after the command are wrong. */
type Run = (service: SimulatedService, ...words: string[]) => string | undefined;

const MOST = 1_000;

const COMMANDS: [usage: string, does: string, run: Run][] = [
  ['send [n] [type]', 'makes n events; by default one MessageReceived', send],
  ['rate <n>', 'makes n events a minute from now on; 0 stops', rate],
  ['chaos <n>', 'from now on, n of 100 events are lost, doubled, shuffled or late; 0 stops', chaos],
  ['ping', 'sends the test event; at most one a minute', ping],
  ['disable', 'switches the webhook off', ({ webhook }) => (webhook.disable(), 'the webhook is off')],
  ['enable', 'switches the webhook on, for new events', ({ webhook }) => (webhook.enable(), 'the webhook is on')],
  ['rotate', 'makes a new secret; the old one signs too', ({ webhook }) => `WEBHOOK_SECRET=${webhook.rotate()}`],
  ['revoke', 'revokes the API key, and shows a new one', revoke],
  ['expire', 'replay no longer shows the events so far', expire],
  ['stream end | stream <reason>', 'ends the streams; or tells them to refresh, with this reason', stream],
  ['fault <what> [n] [REASON] [call]', 'makes the next n calls fail, as below', fault],
  ['help', 'shows this list', help],
];

const MORE = `A fault is a status (from 500 on, the call is still carried out), or
  undone   503, and the call is not carried out
  lost     the call is carried out, and its answer does not arrive
  reset    replay answers reset_required
Examples: fault 429 5 ReplayEvents; fault 400 EVENT_CURSOR_INVALID; fault lost messages/send
Calls: ${CALLS.join(', ')}`;

export function answerTo(service: SimulatedService, line: string): string {
  const [name = '', ...words] = line.trim().split(/\s+/);
  const [usage = 'help', , run] = COMMANDS.find(([one]) => one.split(' ')[0] === name) ?? [];
  try {
    return run?.(service, ...words) ?? (name && `type ${usage}`);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return `refused: ${error.status} ${error.message}`;
  }
}

function help(): string {
  return [...COMMANDS.map(([usage, does]) => `  ${usage.padEnd(34)}${does}`), MORE].join('\n');
}

const isWhole = (text: string, most = Infinity): boolean => /^\d+$/.test(text) && Number(text) <= most;

function send({ emit, webhook }: SimulatedService, n = '1', type = 'MessageReceived'): string | undefined {
  if (!isWhole(n, MOST) || n === '0') return undefined;
  const cursor = emit(Number(n), type).at(-1)?.cursor;
  return `${n} × ${type}, last cursor ${cursor ?? 'none'}; the webhook is ${webhook.state()}`;
}

function rate(service: SimulatedService, n = ''): string | undefined {
  return isWhole(n) ? (service.rate(Number(n)), `${n} events a minute`) : undefined;
}

function chaos(service: SimulatedService, n = ''): string | undefined {
  return isWhole(n, 100) ? (service.chaos.share(Number(n)), `chaos for ${n} of 100 events`) : undefined;
}

function ping(service: SimulatedService): string {
  service.ping();
  return 'the test event is on its way';
}

function revoke(service: SimulatedService): string {
  const key = service.revoke();
  return `the key is revoked, and the webhook is off. Use the new key, and type enable:\n  API_KEY=${key}`;
}

function expire({ history }: SimulatedService): string {
  history.expire();
  return 'replay now answers reset_required to the cursor of every event so far';
}

function stream({ streams }: SimulatedService, what = ''): string | undefined {
  if (what === 'end') streams.end();
  else if (/^[a-z_]+$/.test(what)) streams.refresh(what);
  else return undefined;
  return what === 'end' ? 'the streams have ended' : `the streams are told to refresh: ${what}`;
}

function fault({ faults }: SimulatedService, what = '', ...words: string[]): string | undefined {
  const [call, reason, n = '1', ...more] = [
    what === 'reset' ? 'ReplayEvents' : words.find((word) => CALLS.includes(word)),
    words.find((word) => /^[A-Z_]+$/.test(word)),
    words.find((word) => isWhole(word, MOST)),
    ...words.filter((word) => !CALLS.includes(word) && !/^[A-Z_]+$|^\d+$/.test(word)),
  ];
  if (!FAULTS.includes(what) || n === '0' || more.length > 0) return undefined;
  faults.add({
    what: isWhole(what) ? Number(what) : (what as Exclude<Fault['what'], number>),
    reason,
    call,
    times: Number(n),
  });
  return `the next ${n === '1' ? 'call' : `${n} calls`}${call ? ` of ${call}` : ''}: ${what}`;
}
