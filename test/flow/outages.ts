// The whole flow, from the service to the handlers. The simulator shows its history over HTTP and sends signed
// deliveries. Receiver, reconciler, stream and runner are real and share a store file, each with its own connection.
// The clock is simulated: each call of `turn` advances it by one second.
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { pino } from 'pino';
import { createBudget } from '../../src/service/budget.ts';
import { createReconciler, type Reconciler } from '../../src/reconcile/reconciler.ts';
import type { ReconcilerOptions } from '../../src/reconcile/pass.ts';
import { createFollower } from '../../src/reconcile/stream.ts';
import { startRunner } from '../../src/run/runner.ts';
import { createService } from '../../src/service/service.ts';
import { Refusal } from '../../src/tools/simulator/refusal.ts';
import { createRandom } from '../../src/tools/random.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import type { SimulatedEvent } from '../../src/tools/simulator/history.ts';
import { compareCursors, parseCursor, type Cursor } from '../../src/wire/cursor.ts';
import { openReceiver, PATH, until } from '../receive/harness.ts';
import { handlerOf, noService } from '../run/fixture.ts';
import { storeKind } from '../stores.ts';

const SECOND_MS = 1_000;
const DROPPED = 0.3;
const DOUBLED = 0.2;
const SHUFFLED_MS = 5_000;
const INTERVAL_MS = 60_000;
const OVERLAP_MS = 300_000;
const ORDERS = ['strict', 'window', 'arrival'] as const;
type Order = (typeof ORDERS)[number];

export interface OutageOptions {
  events: number;
  seed: number;
  stream?: boolean;
  /** The service refuses ReplayEvents without a cursor. */
  noBeginning?: boolean;
  callsPerMinute?: number;
}

export interface Handled {
  cursor: Cursor;
  lane: string;
  late: boolean;
  unproven: boolean;
}

export interface Call {
  at: number;
  after: Cursor | null;
  /**
   * `forward` reads from the watermark, `overlap` from below it, `search` from any other cursor or from none.
   * `refused`: the service refused the call, or answered with `reset_required`.
   */
  kind: 'forward' | 'overlap' | 'search' | 'refused';
  items: number;
  more: boolean;
}

/** The bounds of a gap that the kit must store, because the service no longer has the history at the watermark. */
export interface Reset {
  after: Cursor | null;
  upTo: Cursor | null;
}

export interface Outcome {
  history: Cursor[];
  /** Events that expired before a delivery, replay or the stream brought them. */
  lost: Cursor[];
  stored: Cursor[];
  handled: Record<Order, Handled[]>;
  calls: Call[];
  resets: Reset[];
  gaps: { after: string; upTo: string | null }[];
  statuses: Map<unknown, number>;
  deliveries: number;
  callsPerMinute: number;
  state: string;
}

export async function withOutages(options: OutageOptions): Promise<Outcome> {
  const { events, seed, stream = false, noBeginning = false, callsPerMinute = 20 } = options;
  const receiver = await openReceiver({ secrets: ['whsec_of_the_flow_0000000000'] });
  const { clock, path } = receiver;
  const random = createRandom(seed);
  const log = pino({ level: 'silent' });

  const simulator = createSimulatedService({
    seed,
    clock,
    sessions: 4,
    conversations: 5,
    speed: 1,
    addresses: { loopback: true },
  });
  const { history } = simulator;
  const { key, secret: apiKey } = simulator.keys.create({ name: 'flow', scopes: ['events:read'], validDays: null });
  const baseUrl = await simulator.listen();
  const { webhook } = await simulator.webhooks.register(key, {
    url: `http://127.0.0.1:${receiver.port}${PATH}`,
    secret: 'whsec_of_the_flow_0000000000',
  });
  if (noBeginning)
    simulator.chaos.always((truth, after) => (after === null ? new Refusal(400, 'REQUEST_INVALID') : truth));

  const shown = new Set<Cursor>();
  const calls: Call[] = [];
  const keepStore = storeKind.open(path);
  const client = createService({ baseUrl, apiKey, paid: false });
  const service: ReconcilerOptions['service'] = {
    async call(operation, request) {
      const after = (request['after_cursor'] as Cursor | undefined) ?? null;
      const watermark = await keepStore.state.get('watermark');
      const call: Call = { at: clock.now(), after, kind: 'refused', items: 0, more: false };
      calls.push(call);
      const page = await client.call(operation, request);
      const items = page['events'] as { cursor: Cursor }[];
      for (const { cursor } of items) shown.add(cursor);
      const behind = after !== null && watermark !== null && compareCursors(after, watermark) < 0;
      const expired = page['reset_required'] === true;
      const kind = expired ? 'refused' : after === watermark ? 'forward' : behind ? 'overlap' : 'search';
      Object.assign(call, { kind, items: items.length, more: page['has_more'] });
      return page;
    },
  };

  let reconciler: Reconciler | undefined;
  let nextStepAt = 0;
  const runStore = storeKind.open(path, { synchronous: 'NORMAL' });
  const handled: Outcome['handled'] = { strict: [], window: [], arrival: [] };
  const handlers = ORDERS.map((order) =>
    handlerOf({
      name: order,
      order,
      handle(event, ctx) {
        if (event.cursor === null) return;
        const { from } = event.data as { from: string };
        handled[order].push({
          cursor: event.cursor as Cursor,
          lane: `${event.sessionId}/${from}`,
          late: ctx.late,
          unproven: ctx.unproven,
        });
      },
    }),
  );
  const runner = await startRunner({
    store: runStore.work,
    handlers,
    serviceFor: noService,
    clock,
    log,
    boot: 1,
    concurrency: 32,
    windowMs: 250,
    onUnproven() {
      reconciler?.prove();
      nextStepAt = 0;
    },
  });

  let following: { stop: AbortController; ended: Promise<void> } | undefined;

  /** Starts the reconciler and, with the option `stream`, the stream. */
  async function startKeep(): Promise<void> {
    const common = { store: keepStore, clock, log, types: ['*'], onEvents: () => runner.wake() };
    let proves = (): boolean => false;
    const started = createReconciler({
      ...common,
      service,
      budget: createBudget(callsPerMinute, clock),
      from: 'first-webhook',
      intervalMs: INTERVAL_MS,
      overlapMs: OVERLAP_MS,
      streaming: () => proves(),
    });
    reconciler = started;
    nextStepAt = 0;
    if (!stream) return;
    const onHole = (): void => started.now();
    const follower = createFollower({ ...common, baseUrl, apiKey, onHole, fresh: () => started.fresh() });
    const stop = new AbortController();
    proves = () => follower.proves();
    following = { stop, ended: follower.follow(stop.signal) };
    const before = simulator.streams.count();
    await until(() => simulator.streams.count() > before, 'the stream to open');
  }

  async function endKeep(): Promise<void> {
    reconciler = undefined;
    following?.stop.abort();
    await following?.ended;
    following = undefined;
  }

  const onTheWay: { at: number; event: SimulatedEvent }[] = [];
  const statuses = new Map<unknown, number>();
  let deliveries = 0;

  function happen(delivered: boolean): SimulatedEvent {
    const event = history.next();
    simulator.streams.publish(event);
    const [dropped, doubled] = [random.next() < DROPPED, random.next() < DOUBLED];
    if (dropped || !delivered) return event;
    for (let copy = 0; copy < (doubled ? 2 : 1); copy++)
      onTheWay.push({ at: clock.now() + random.next() * SHUFFLED_MS, event });
    return event;
  }

  async function deliver(...due: SimulatedEvent[]): Promise<void> {
    deliveries += due.length;
    const outcomes = await Promise.all(due.map((event) => webhook.deliver(event)));
    for (const { statuses: answers } of outcomes)
      for (const answer of answers) statuses.set(answer, (statuses.get(answer) ?? 0) + 1);
  }

  /** Advances the clock by one second. */
  async function turn(): Promise<void> {
    clock.at += SECOND_MS;
    const due = onTheWay.filter(({ at }) => at <= clock.at).toSorted((a, b) => a.at - b.at);
    if (due.length > 0) {
      const late = onTheWay.filter(({ at }) => at > clock.at);
      onTheWay.splice(0, onTheWay.length, ...late);
      await deliver(...due.map(({ event }) => event));
    }
    runner.wake();
    await turnOfTheLoop();
    if (!reconciler) return;
    while (nextStepAt <= clock.at) nextStepAt = clock.at + (await reconciler.step());
  }

  async function live(count: number, seconds: number): Promise<void> {
    for (let second = 1; second <= seconds; second++) {
      const due = Math.round((count * second) / seconds) - Math.round((count * (second - 1)) / seconds);
      for (let n = 0; n < due; n++) happen(true);
      await turn();
    }
  }

  async function state(): Promise<string> {
    return (await keepStore.read.status(clock.at)).reconcile.state;
  }

  /** Runs until replay has shown all events and is idle. */
  async function settle(): Promise<void> {
    for (let seconds = 0; ; seconds++) {
      await turn();
      const newest = history.all().at(-1)?.cursor ?? null;
      if (onTheWay.length === 0 && (await state()) === 'idle' && (await keepStore.state.get('watermark')) === newest)
        return;
      if (seconds > 7_200)
        throw new Error(`replay does not reach its end: ${JSON.stringify(await keepStore.read.status(clock.at))}`);
    }
  }

  const resets: Reset[] = [];
  /** Expires the service's history up to this event. The bounds of the gap are computed from the stored events. */
  async function forget(last: SimulatedEvent): Promise<void> {
    history.expireUpTo(last.cursor ?? '');
    const page = history.after(null, 1);
    const kept = typeof page === 'string' ? null : parseCursor(page.events[0]?.cursor);
    const [known] = receiver.query<{ cursor: Cursor | null }>(
      'select cast(min(cursor) as text) as cursor from events where cursor >= ?',
      BigInt(kept ?? 0),
    );
    resets.push({ after: await keepStore.state.get('watermark'), upTo: (noBeginning ? known?.cursor : kept) ?? null });
  }

  const share = (part: number): number => Math.round(events * part);
  // A webhook delivers the first event, so that replay begins there.
  await startKeep();
  await deliver(happen(false));
  await settle();
  await live(share(0.3), 150);
  simulator.streams.end();
  await live(share(0.1), 30);

  // For eight hours, nothing is delivered or read. The service expires the first third of the events of that time.
  await endKeep();
  onTheWay.length = 0;
  const outage: SimulatedEvent[] = [];
  for (let minutes = 0; minutes < 480; minutes++) {
    for (let n = 0; n < share(0.3 / 480); n++) outage.push(happen(false));
    clock.at += 60 * SECOND_MS;
  }
  // The service retries a few deliveries of the last two hours, in any order.
  const repeated = outage.slice(-outage.length / 4).filter(() => random.next() < 0.1);
  await deliver(...repeated.toSorted(() => random.next() - 0.5));
  await forget(outage[Math.floor(outage.length / 3)] as SimulatedEvent);
  await startKeep();
  // Some events that are already inside a gap are delivered late.
  await live(share(0.1), 60);
  await deliver(...outage.slice(0, outage.length / 3).filter(() => random.next() < 0.02));
  simulator.streams.end();
  await live(share(0.1), 60);

  // Deliveries go on while the reconciler is stopped. Then half of the new events expire.
  await endKeep();
  const before = history.all().length;
  await live(share(0.1), 60);
  const unread = history.all().slice(before);
  await forget(unread[Math.floor(unread.length / 2)] as SimulatedEvent);
  await startKeep();
  await settle();
  for (let second = 0; second < (2 * INTERVAL_MS) / SECOND_MS; second++) await turn();

  const stored = receiver
    .query<{ cursor: Cursor }>(
      'select cast(cursor as text) as cursor from events where cursor is not null order by events.cursor',
    )
    .map(({ cursor }) => cursor);
  await until(() => ORDERS.every((order) => handled[order].length >= stored.length), 'all to be handled', 120_000);
  const all = history.all().map(({ cursor }) => cursor as Cursor);
  const known = new Set<string>(stored);
  const lost = all.filter((cursor) => !known.has(cursor));
  if (lost.some((cursor) => shown.has(cursor))) throw new Error('replay showed an event that was not stored');
  const outcome: Outcome = {
    history: all,
    lost,
    stored,
    handled,
    calls,
    resets,
    gaps: await keepStore.read.gaps(),
    statuses,
    deliveries,
    callsPerMinute,
    state: await state(),
  };
  await endKeep();
  await runner.drain(1_000);
  runStore.close();
  keepStore.close();
  await simulator.close();
  await receiver.close();
  return outcome;
}
