// The demo: the simulated service sends real signed deliveries over HTTP to a real receiver, and loses, doubles,
// shuffles and forges some of them. The demo kills `run`, lets replay fetch what was lost, and checks that all sums agree.
import { systemClock as clock } from '../../base/clock.ts';
import { styleText } from 'node:util';
import { describe, EXIT } from '../../base/errors.ts';
import type { SimulatedEvent } from '../simulator/history.ts';
import { startService } from '../simulator/service.ts';
import type { Answer } from '../simulator/webhook.ts';
import { createReceiver } from './receiver.ts';

/** The highest cursor among the tasks completed before in the same lane. */
const HIGHEST = 'max(cursor) over (partition by lane order by n rows between unbounded preceding and 1 preceding)';

const kit = await createReceiver();
const service = await startService({ url: kit.url, speed: 1_000 });
const { history, webhook } = service;
kit.start({ WEBHOOK_SECRET: service.secret, API_BASE_URL: service.url, API_KEY: service.key });

let exitCode: number = EXIT.failed;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(EXIT.failed));
try {
  print('A receiver with one handler, on a store of its own. The service is simulated; the rest is real.\n');
  await kit.ready();
  exitCode = show(await tell()) ? EXIT.done : EXIT.failed;
} catch (error) {
  print(`\nThe demo failed: ${describe(error).message}`);
}
await kit.stop();
await service.stop();
process.exit(exitCode);

/** Plays the demo step by step. Resolves with the sums, unchecked. */
async function tell(): Promise<Sum[]> {
  const first = await act('the first', make(1), inTurn);
  // Replay begins at the first stored event. The demo waits until it has begun, and only then loses events.
  await kit.until(
    "the receiver's first reading of the history",
    async () => (await kit.status()).reconcile.lastAt !== null,
  );
  const askedAt = clock.now();
  await kit.reconcile();
  await kit.until('the first requested reconciliation', async () => {
    const { lastAt } = (await kit.status()).reconcile;
    return Date.parse(String(lastAt)) >= askedAt;
  });
  const ordered = await act('in order', make(199), inTurn);
  const hundred = make(100);
  const doubled = await act('each twice at once', [...hundred, ...hundred], atOnce);
  const shuffled = await act('shuffled', shuffle(make(200)), atOnce);
  const forged = await act('forged by a stranger', history.all().slice(0, 50), (events) =>
    Promise.all(events.map(async (event) => [await webhook.forge(event)])),
  );
  const lost = make(60).length;
  line('lost on the way', `${lost} events that are never delivered`);
  const killed = await act('while run is killed', make(200), (events) => {
    const sending = atOnce(events);
    process.kill(kit.count('select pid from demo_handled order by n desc'), 'SIGKILL');
    return sending;
  });
  await fetchLost(lost);
  const sent = first + ordered + doubled + shuffled + forged + killed;
  return sumsOf({ sent, lost, doubled: hundred.length, forged });
}

async function fetchLost(lost: number): Promise<void> {
  const before = service.api.requests();
  await kit.reconcile();
  await kit.until('replay to fetch the lost events', async () => (await kit.status()).reconcile.recovered >= lost);
  const calls = service.api.requests() - before;
  const { recovered } = (await kit.status()).reconcile;
  line('replay', `${recovered} events fetched in ${calls === 1 ? 'one call' : `${calls} calls`}`);
  const events = history.all().length;
  await kit.until('every event to be handled', async () => (await kit.status()).tasks.done >= events);
}

interface Sum {
  name: string;
  meaning: string;
  want: number;
  got: number;
}

async function sumsOf(want: Record<'sent' | 'lost' | 'doubled' | 'forged', number>): Promise<Sum[]> {
  const events = history.all().length;
  const status = await kit.status();
  const { recovered } = status.reconcile;
  const accepted = status.events - recovered;
  const refused = kit.count(`select sum(value) from state where name like 'refused.%'`);
  const once = kit.count('select count(*) from (select 1 from demo_handled group by key having count(*) = 1)');
  const before = `select late, cursor, coalesce(${HIGHEST}, -1) as before from demo_handled`;
  const inOrder = kit.count(`select count(*) from (${before}) where late = 1 or cursor > before`);
  const completions = kit.count('select count(*) from demo_handled');
  line('the handler', `${completions} completions, ${kit.count('select sum(late) from demo_handled')} marked late`);
  const all = accepted + status.duplicates + refused;
  return [
    { name: 'sent', meaning: 'deliveries made', want: all, got: want.sent },
    { name: 'accepted', meaning: 'events stored by a delivery', want: events - want.lost, got: accepted },
    { name: 'duplicates', meaning: 'deliveries of events already stored', want: want.doubled, got: status.duplicates },
    { name: 'refused', meaning: 'forged deliveries', want: want.forged, got: refused },
    { name: 'recovered', meaning: 'events stored by replay', want: want.lost, got: recovered },
    { name: 'handled once', meaning: 'events with exactly one completion', want: events, got: once },
    { name: 'in order', meaning: 'in cursor order in their lane, or marked late', want: events, got: inOrder },
  ];
}

/** Sends these events, prints how they were answered, and resolves with the number of deliveries. */
async function act(
  name: string,
  events: readonly SimulatedEvent[],
  send: (events: readonly SimulatedEvent[]) => Promise<Answer[][]>,
): Promise<number> {
  const deliveries = await send(events);
  const answers = Map.groupBy(deliveries, (delivery) => delivery.join(' then '));
  line(name, [...answers].map(([statuses, those]) => `${those.length} × ${statuses}`).join(', '));
  return deliveries.flat().length;
}

async function inTurn(events: readonly SimulatedEvent[]): Promise<Answer[][]> {
  const deliveries: Answer[][] = [];
  for (const event of events) deliveries.push(await webhook.deliver(event));
  return deliveries;
}

function atOnce(events: readonly SimulatedEvent[]): Promise<Answer[][]> {
  return Promise.all(events.map((event) => webhook.deliver(event)));
}

function make(count: number): SimulatedEvent[] {
  return Array.from({ length: count }, () => history.add());
}

/** Sorts by the reversed digits of the cursor: the order looks random, but is the same in every demo. */
function shuffle(events: SimulatedEvent[]): SimulatedEvent[] {
  const mixed = ({ cursor }: SimulatedEvent): string => (cursor ?? '').split('').toReversed().join('');
  return events.toSorted((a, b) => (mixed(a) < mixed(b) ? -1 : 1));
}

/** Prints the sums. True: all are right. */
function show(sums: Sum[]): boolean {
  print('');
  for (const { name, meaning, want, got } of sums) {
    const [colour, words] =
      want === got ? (['green', 'right'] as const) : (['red', `wrong: ${want} expected`] as const);
    const verdict = process.stdout.isTTY ? styleText(colour, words) : words;
    print(`  ${name.padEnd(14)}${String(got).padStart(6)}  ${verdict.padEnd(8)}  ${meaning}`);
  }
  const wrong = sums.filter(({ want, got }) => want !== got).length;
  const logged = `Wrong: ${wrong} of ${sums.length} sums. What the receiver wrote:\n${kit.output()}`;
  print(`\n${wrong === 0 ? 'The sums are right.' : logged}`);
  return wrong === 0;
}

function line(name: string, text: string): void {
  print(`  ${name.padEnd(24)}${text}`);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
