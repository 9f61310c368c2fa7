// The demo. The simulator sends real signed deliveries over HTTP to a real receiver, and loses, duplicates, shuffles
// and forges some of them. The demo kills `run`, lets replay fetch the lost events, and checks every count.
import '../../base/node/checked.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { systemClock as clock } from '../../base/clock.ts';
import { EXIT } from '../../base/errors.ts';
import type { SimulatedEvent } from '../simulator/history.ts';
import { createSimulatedService } from '../simulator/service.ts';
import type { Delivered } from '../simulator/webhook.ts';
import type { Status } from '../../store/read.ts';
import { startReceiver } from './receiver.ts';

const PATIENCE_MS = 60_000;

interface Sum {
  name: string;
  meaning: string;
  want: number;
  got: number;
}

const once = process.argv.includes('--once') || !process.stdout.isTTY;
const service = createSimulatedService({ seed: 7, speed: 1_000, addresses: { loopback: true } });
const { history } = service;
const { key, secret: apiKey } = service.keys.create({ name: 'demo', scopes: ['events:read'], validDays: null });
const kit = await startReceiver(await service.listen(), apiKey);
const { webhook } = await service.webhooks.register(key, { url: kit.url, secret: kit.secret });

let exitCode: number = EXIT.failed;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => void end(exitCode));

print('A receiver with one handler, on a store of its own. The service is simulated; the rest is real.\n');
const good = show(await tell());
if (once) await end(good ? EXIT.done : EXIT.failed);
print(`\nIt stays up: ${kit.opsUrl}/api/status    Ctrl-C ends it.`);
exitCode = good ? EXIT.done : EXIT.failed;

/** Runs the demo step by step. Then it reads the counts from the store and from the handler's table. */
async function tell(): Promise<Sum[]> {
  const first = await act('the first', make(1), inTurn);
  await kit.until('the first reconciliation', async () => (await status()).reconcile.lastAt !== null);
  const ordered = await act('in order', make(199), inTurn);
  const doubled = await act('each twice at once', make(100), (events) =>
    atOnce(events.flatMap((event) => [event, event])),
  );
  const shuffled = await act('shuffled', make(200), (events) => atOnce(shuffle(events)));
  const forged = await act('forged by a stranger', history.all().slice(0, 50), (events) => atOnce(events, true));
  const lost = make(60);
  line('lost on the way', `${lost.length} events that are never delivered`);
  const crashed = await act('while run is killed', make(200), async (events) => {
    const sending = atOnce(events);
    process.kill(await kit.pidOfRun(), 'SIGKILL');
    return sending;
  });
  const replayed = service.api.calls();
  await kit.store.state.note({}, { reconcile_asked: clock.now() });

  const events = history.all().length;
  await kit.until('replay to bring what was lost', async () => (await status()).reconcile.recovered >= lost.length);
  await kit.until('every event to be handled', async () => (await status()).tasks.done >= events);
  const calls = service.api.calls() - replayed;
  line('replay', `${lost.length} events fetched in ${calls === 1 ? 'one call' : `${calls} calls`}`);
  const seen = kit.handled();
  line('the handler', `${seen.completions} completions, ${seen.late} marked late`);

  const sent = [first, ordered, doubled, shuffled, forged, crashed].flat().length;
  const last = await status();
  const accepted = last.events - last.reconcile.recovered;
  return [
    { name: 'sent', meaning: 'deliveries made', want: accepted + last.duplicates + (await refused()), got: sent },
    { name: 'accepted', meaning: 'events stored by a delivery', want: events - lost.length, got: accepted },
    { name: 'duplicates', meaning: 'deliveries of events that were there', want: 100, got: last.duplicates },
    { name: 'refused', meaning: 'deliveries of strangers', want: forged.length, got: await refused() },
    { name: 'recovered', meaning: 'events stored by replay', want: lost.length, got: last.reconcile.recovered },
    { name: 'handled once', meaning: 'events with exactly one completion', want: events, got: seen.once },
    { name: 'in order', meaning: 'in cursor order in their lane, or marked late', want: events, got: seen.inOrder },
  ];
}

async function act(
  name: string,
  events: SimulatedEvent[],
  send: (events: SimulatedEvent[]) => Promise<Delivered[]>,
): Promise<Delivered[]> {
  const delivered = await send(events);
  const answers = Map.groupBy(delivered, ({ statuses }) => statuses.join(' then '));
  line(name, [...answers].map(([statuses, those]) => `${those.length} × ${statuses}`).join(', '));
  return delivered;
}

function make(count: number): SimulatedEvent[] {
  return Array.from({ length: count }, () => history.next());
}

async function inTurn(events: SimulatedEvent[]): Promise<Delivered[]> {
  const delivered: Delivered[] = [];
  for (const event of events) delivered.push(await webhook.deliver(event));
  return delivered;
}

function atOnce(events: SimulatedEvent[], forged = false): Promise<Delivered[]> {
  return Promise.all(events.map((event) => webhook.deliver(event, { forged })));
}

/** Sorts by the reversed digits of the cursor, so that the order looks random, but is the same in every demo. */
function shuffle(events: SimulatedEvent[]): SimulatedEvent[] {
  const mixed = ({ cursor }: SimulatedEvent): string => (cursor ?? '').split('').toReversed().join('');
  return events.toSorted((a, b) => (mixed(a) < mixed(b) ? -1 : 1));
}

function status(): Promise<Status> {
  return kit.store.read.status(clock.now());
}

async function refused(): Promise<number> {
  const counters = Object.entries(await kit.store.read.counters());
  return counters.reduce((sum, [name, count]) => sum + (name.startsWith('refused.') ? count : 0), 0);
}

function line(name: string, text: string): void {
  print(`  ${name.padEnd(22)}${text}`);
}

/** Prints each count. Returns true if all counts are right. */
function show(sums: Sum[]): boolean {
  print('');
  for (const { name, meaning, want, got } of sums) {
    const verdict = want === got ? mark('green', 'right') : mark('red', `wrong: ${want} expected`);
    print(`  ${name.padEnd(14)}${String(got).padStart(6)}  ${verdict.padEnd(8)}  ${meaning}`);
  }
  const wrong = sums.filter(({ want, got }) => want !== got);
  print(
    wrong.length === 0
      ? '\nThe sums are right.'
      : `\n${wrong.length} sums are wrong; what the receiver wrote:\n${kit.output()}`,
  );
  return wrong.length === 0;
}

function mark(colour: 'green' | 'red', text: string): string {
  return process.stdout.isTTY ? styleText(colour, text) : text;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function end(code: number): Promise<void> {
  // The receiver gets up to a minute to stop, so that it can still log an error.
  await Promise.race([kit.stop(), sleep(PATIENCE_MS, undefined, { ref: false })]);
  process.exit(code);
}
