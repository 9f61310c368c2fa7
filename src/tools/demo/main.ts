// The demo. The simulator sends real signed deliveries over HTTP to a real receiver, and loses, duplicates, shuffles
// and forges some of them. The demo kills `run`, lets replay fetch the lost events, and checks every count. If
// DATABASE_URL names a PostgreSQL server, there are two instances, and the demo also kills the one that leads.
import '../../base/node/checked.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock as clock } from '../../base/clock.ts';
import { describe, EXIT } from '../../base/errors.ts';
import type { Status } from '../../store/read.ts';
import { ownSchema, type OwnSchema } from '../own-schema.ts';
import type { SimulatedEvent } from '../simulator/history.ts';
import { createSimulatedService } from '../simulator/service.ts';
import type { Delivered, Webhook } from '../simulator/webhook.ts';
import { countHandled } from './counts.ts';
import { createInstances, SECRET } from './instances.ts';
import { startReceiver, type Receiver } from './receiver.ts';
import { line, print, show, type Sum } from './sums.ts';

/** The receiver gets up to a minute to stop, so that it can still log an error. */
const STOP_MS = 60_000;

const once = process.argv.includes('--once') || !process.stdout.isTTY;
const schema = schemaOf(process.env['DATABASE_URL'] ?? '');
const instances = createInstances(schema?.url);
const service = createSimulatedService({ seed: 7, speed: 1_000, addresses: { loopback: true } });
const { history } = service;

let exitCode: number = EXIT.failed;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => void end(exitCode));

let ending = false;
try {
  await schema?.drop();
} catch (error) {
  print(`The PostgreSQL server of DATABASE_URL cannot be used: ${describe(error).message}`);
  process.exit(EXIT.failed);
}
await demonstrate().catch(async (error: unknown) => {
  if (ending) return;
  print(`\nThe demo failed: ${describe(error).message}`);
  await end(EXIT.failed);
});

async function demonstrate(): Promise<void> {
  print(
    schema
      ? 'Two receivers on one PostgreSQL store, behind a balancer. The service is simulated; the rest is real.\n'
      : 'A receiver with one handler, on a store of its own. The service is simulated; the rest is real.\n',
  );
  const { key, secret: apiKey } = service.keys.create({ name: 'demo', scopes: ['events:read'], validDays: null });
  const env = { API_BASE_URL: await service.listen(), API_KEY: apiKey };
  const kit = await startReceiver(instances, schema?.url, env);
  const { webhook } = await service.webhooks.register(key, { url: kit.url, secret: SECRET });
  const good = show(await tell(kit, webhook), instances.output);
  if (once) await end(good ? EXIT.done : EXIT.failed);
  const up = instances.all.find(({ killed }) => !killed);
  print(`\nIt stays up: ${up?.kit.opsUrl}/api/status    Ctrl-C ends it.`);
  exitCode = good ? EXIT.done : EXIT.failed;
}

/** Runs the demo step by step. Then it reads the counts from the store and from the handler's table. */
async function tell(kit: Receiver, webhook: Webhook): Promise<Sum[]> {
  const inTurn = async (events: SimulatedEvent[]): Promise<Delivered[]> => {
    const delivered: Delivered[] = [];
    for (const event of events) delivered.push(await webhook.deliver(event));
    return delivered;
  };
  const atOnce = (events: SimulatedEvent[], forged = false): Promise<Delivered[]> =>
    Promise.all(events.map((event) => webhook.deliver(event, { forged })));

  const first = await act('the first', make(1), inTurn);
  await kit.until('the first reconciliation', async () => (await statusOf(kit)).reconcile.lastAt !== null);
  const ordered = await act('in order', make(199), inTurn);
  const doubled = await act('each twice at once', make(100), (events) =>
    atOnce(events.flatMap((event) => [event, event])),
  );
  const shuffled = await act('shuffled', make(200), (events) => atOnce(shuffle(events)));
  const forged = await act('forged by a stranger', history.all().slice(0, 50), (events) => atOnce(events, true));
  const lost = make(60);
  line('lost on the way', `${lost.length} events that are never delivered`);
  const replayed = service.api.calls();
  const crashed = await act('while run is killed', make(200), async (events) => {
    const sending = atOnce(events);
    await kit.killRun();
    return sending;
  });
  const { failover, again } = kit.balancer ? await killLeader(kit, kit.balancer, atOnce) : { failover: [], again: 0 };
  await fetchLost(kit, lost, replayed);
  const sent = [first, ordered, doubled, shuffled, forged, crashed, failover].flat().length + again;
  const sums = await sumsOf(kit, { sent, lost: lost.length, doubled: 100 + again, forged: forged.length });
  if (!kit.balancer) return sums;
  const leading = (await kit.store.processes.instances()).filter(({ leads }) => leads).length;
  return [...sums, { name: 'leading', meaning: 'instances that lead: their handlers run', want: 1, got: leading }];
}

/** `again`: how many deliveries were stored although the answer was lost, so that the balancer repeated them. */
async function killLeader(
  { store, ...kit }: Receiver,
  { answered, brokenOff }: NonNullable<Receiver['balancer']>,
  send: (events: SimulatedEvent[]) => Promise<Delivered[]>,
): Promise<{ failover: Delivered[]; again: number }> {
  let took = 0;
  const failover = await act('leader killed with -9', make(200), async (events) => {
    const sending = send(events);
    const began = clock.monotonic();
    await kit.killLeader();
    took = clock.monotonic() - began;
    return sending;
  });
  const found = await Promise.all([...brokenOff].map((id) => store.read.event(id, clock.now())));
  const again = found.filter((one) => (one?.event.copies ?? 0) > 0).length;
  line('sent again', `${brokenOff.size} deliveries that the leader did not answer; ${again} of them it had stored`);
  line('taken over', `the other instance leads after ${(took / 1000).toFixed(1)} s`);
  line('the balancer', `${answered.join(' and ')} deliveries answered by the two instances`);
  return { failover, again };
}

async function fetchLost(kit: Receiver, lost: SimulatedEvent[], callsBefore: number): Promise<void> {
  await kit.store.state.note({}, { reconcile_asked: clock.now() });
  const events = history.all().length;
  const recovered = async (): Promise<number> => (await statusOf(kit)).reconcile.recovered;
  await kit.until('replay to bring what was lost', async () => (await recovered()) >= lost.length);
  await kit.until('every event to be handled', async () => (await statusOf(kit)).tasks.done >= events);
  const calls = service.api.calls() - callsBefore;
  line('replay', `${await recovered()} events fetched in ${calls === 1 ? 'one call' : `${calls} calls`}`);
}

async function sumsOf(
  kit: Receiver,
  want: { sent: number; lost: number; doubled: number; forged: number },
): Promise<Sum[]> {
  const events = history.all().length;
  const seen = await countHandled(kit.store);
  line('the handler', `${seen.completions} completions, ${seen.late} marked late`);
  const last = await statusOf(kit);
  const { recovered } = last.reconcile;
  const refused = await refusedOf(kit);
  const accepted = last.events - recovered;
  const { sent, lost, doubled, forged } = want;
  const meaning = kit.balancer ? 'deliveries that were answered, or stored without an answer' : 'deliveries made';
  return [
    { name: 'sent', meaning, want: accepted + last.duplicates + refused, got: sent },
    { name: 'accepted', meaning: 'events stored by a delivery', want: events - lost, got: accepted },
    { name: 'duplicates', meaning: 'deliveries of events that were there', want: doubled, got: last.duplicates },
    { name: 'refused', meaning: 'deliveries of strangers', want: forged, got: refused },
    { name: 'recovered', meaning: 'events stored by replay', want: lost, got: recovered },
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
  // The receiver stops, so what comes now means nothing.
  if (ending) await new Promise(() => {});
  const answers = Map.groupBy(delivered, ({ statuses }) => statuses.join(' then '));
  line(name, [...answers].map(([statuses, those]) => `${those.length} × ${statuses}`).join(', '));
  return delivered;
}

function make(count: number): SimulatedEvent[] {
  return Array.from({ length: count }, () => history.next());
}

/** Sorts by the reversed digits of the cursor, so that the order looks random, but is the same in every demo. */
function shuffle(events: SimulatedEvent[]): SimulatedEvent[] {
  const mixed = ({ cursor }: SimulatedEvent): string => (cursor ?? '').split('').toReversed().join('');
  return events.toSorted((a, b) => (mixed(a) < mixed(b) ? -1 : 1));
}

function statusOf({ store }: Receiver): Promise<Status> {
  return store.read.status(clock.now());
}

async function refusedOf({ store }: Receiver): Promise<number> {
  const counters = Object.entries(await store.read.counters());
  return counters.reduce((sum, [name, count]) => sum + (name.startsWith('refused.') ? count : 0), 0);
}

/** Undefined: the demo runs on SQLite. */
function schemaOf(server: string): OwnSchema | undefined {
  return server.startsWith('postgres')
    ? ownSchema(server, `kit_demo_${process.pid}_${clock.now().toString(36)}`)
    : undefined;
}

async function end(code: number): Promise<void> {
  ending = true;
  await Promise.race([instances.stop(), sleep(STOP_MS, undefined, { ref: false })]);
  await schema
    ?.drop()
    .catch((error: unknown) => print(`The demo's schema was not dropped: ${describe(error).message}`));
  process.exit(code);
}
