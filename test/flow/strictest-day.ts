// One day with the simulated service at its strictest. It refuses, fails and forgets in every way that the contract
// names for a receiver and its client. The parts of the kit are real and share a store file. The clock is simulated:
// tests advance it, and each failed attempt of a delivery advances it by the wait before the next attempt.
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { createReconciler, type Reconciler } from '../../src/reconcile/reconciler.ts';
import { createFollower } from '../../src/reconcile/stream.ts';
import { startRunner } from '../../src/run/runner.ts';
import { createBudget } from '../../src/service/budget.ts';
import { createService, type Service } from '../../src/service/service.ts';
import { refuse } from '../../src/tools/simulator/faults.ts';
import type { SimulatedEvent } from '../../src/tools/simulator/history.ts';
import type { Key } from '../../src/tools/simulator/keys.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import type { RefreshReason } from '../../src/tools/simulator/stream.ts';
import { WAITS_MS, type DeliverOptions } from '../../src/tools/simulator/webhook.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { bodyOf, openReceiver, PATH, send, until } from '../receive/harness.ts';
import { createLines, handlerOf, noService } from '../run/fixture.ts';
import { storeKind } from '../stores.ts';
import { makeCalls, makePaidCalls, refusalOf } from './strictest-calls.ts';
import { listenIn, openRoad } from './strictest-road.ts';
import { COMPOSE } from '../alarms/alert-endpoint.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Divides the real waits of the simulator: eight attempts of a delivery take three seconds. */
const SPEED = 10_000;
const SECRET = 'whsec_of_the_strictest_day_000000';
const ORDERS = ['strict', 'window', 'arrival'] as const;
type Order = (typeof ORDERS)[number];
const REFRESHES: RefreshReason[] = [
  'cursor_expired',
  'buffer_limit',
  'replay_limit',
  'replay_incomplete',
  'replay_unavailable',
];
/** More pages than the kit reads in a row while all are empty. */
const FOREIGN_EVENTS = 101_000;

export interface Handled {
  cursor: Cursor;
  lane: string;
  /** The event is marked late or unproven, so it may be out of order. */
  marked: boolean;
}

export interface Day {
  /** What the service refused, and how its deliveries failed. */
  happened: Set<string>;
  /** The words of the kit, by place. */
  said: Record<'log' | 'alarm' | 'status' | 'error', string>;
  /** The events that the key may read, in cursor order. */
  readable: Cursor[];
  /** Those of them that the service has shown or delivered, or can still show. */
  shown: Set<Cursor>;
  stored: Cursor[];
  handled: Record<Order, Handled[]>;
  gaps: { after: string; upTo: string | null }[];
  /** Events from while the webhook was off that a delivery brought all the same. */
  backfilled: Cursor[];
  state: string;
}

export async function liveStrictestDay(): Promise<Day> {
  const happened = new Set<string>();
  const errors: string[] = [];
  const words = { alarm: new Set<string>(), status: new Set<string>() };
  const shown = new Set<Cursor>();
  /** False: failed attempts do not advance the clock. */
  let jumps = true;
  const receiver = await openReceiver({ secrets: [SECRET], synchronous: 'NORMAL' });
  const { clock, path } = receiver;
  const { log, lines } = createLines();
  const road = await openRoad(receiver.port, (answer) => void happened.add(answer));

  const simulator = createSimulatedService({
    seed: 5,
    clock,
    sessions: 3,
    speed: SPEED,
    addresses: { loopback: true },
    post: { answerMs: 1_000 },
    onAttempt({ event, attempt, answer, forged }) {
      const success = answer === 204;
      if (success) shown.add(event.cursor as Cursor);
      if (success || forged) return;
      happened.add(`answer ${answer}`);
      happened.add(`attempt ${attempt}`);
      if (jumps) clock.at += WAITS_MS[attempt] ?? 0;
    },
  });
  const { history, keys, chaos, streams, webhooks } = simulator;
  const [first = '', second = '', foreign = ''] = history.numbers;
  const baseUrl = await simulator.listen();

  const createKey = () =>
    keys.create({
      name: 'strict',
      scopes: ['events:read', 'messages:send', 'product:inbox'],
      validDays: null,
      numbers: [first, second],
    });
  const registerAt = (key: Key, secret: string) =>
    webhooks.register(key, { url: `http://127.0.0.1:${road.port}${PATH}`, secret });
  let { key, secret: apiKey } = createKey();
  let { webhook } = await registerAt(key, SECRET);

  const readable = (): SimulatedEvent[] => history.all().filter(({ sessionId }) => sessionId !== foreign);

  const fetch = listenIn(happened, shown);
  const clientOf = (secret: string): Service => createService({ baseUrl, apiKey: secret, paid: true, fetch });

  // The kit.
  const keepStore = storeKind.open(path);
  const runStore = storeKind.open(path, { synchronous: 'NORMAL' });
  let reconciler: Reconciler | undefined;
  let following: { stop: AbortController; ended: Promise<void> } | undefined;
  const handled: Day['handled'] = { strict: [], window: [], arrival: [] };
  const runner = await startRunner({
    store: runStore.work,
    handlers: ORDERS.map((order) => handlerOf({ name: order, order, handle: noteHandled(handled[order]) })),
    serviceFor: noService,
    clock,
    log,
    boot: 1,
    concurrency: 32,
    windowMs: 250,
    onUnproven: () => reconciler?.prove(),
  });
  const alarms = createAlarms({
    store: keepStore,
    clock,
    log,
    alertUrl: undefined,
    compose: COMPOSE,
    freeBytes: () => 100 * 1024 ** 3,
  });
  const common = { store: keepStore, clock, log, types: ['*'], onEvents: () => runner.wake() };

  function startKeep(): void {
    reconciler = createReconciler({
      ...common,
      service: clientOf(apiKey),
      budget: createBudget(20, clock),
      from: 'first-webhook',
      intervalMs: MINUTE_MS,
      overlapMs: 5 * MINUTE_MS,
    });
  }

  async function startStream(): Promise<void> {
    const onHole = (): void => reconciler?.now();
    const fresh = (): boolean => reconciler?.fresh() ?? false;
    const follower = createFollower({ ...common, baseUrl, apiKey, fetch, onHole, fresh, firstWaitMs: 1 });
    const stop = new AbortController();
    following = { stop, ended: follower.follow(stop.signal) };
    await until(() => streams.count() > 0, 'the stream to open');
  }

  /** Reads what the kit says to people. */
  async function look(): Promise<void> {
    const { reconcile, stream, secrets } = await receiver.status();
    words.status.add(`reconcile ${reconcile.state}: ${reconcile.reason}`);
    words.status.add(`stream ${stream.state}: ${stream.reason}`);
    for (const { number, hits } of secrets) words.status.add(`secret ${number} has signed ${hits}`);
    await alarms.step();
    for (const { name, detail } of alarms.up()) words.alarm.add(`${name}: ${detail}`);
    runner.wake();
    await turnOfTheLoop();
  }

  /** Advances the clock. */
  async function pass(ms: number): Promise<void> {
    for (const end = clock.at + ms; clock.at < end;) {
      const delay = (await reconciler?.step()) ?? ms;
      await look();
      clock.at += Math.min(Math.max(1, Math.ceil(delay)), end - clock.at);
    }
  }

  /** Advances the clock until replay has shown all events and is idle. */
  async function settle(): Promise<void> {
    await webhooks.settled();
    const newest = readable().at(-1)?.cursor;
    reconciler?.now();
    for (let tries = 0; ; tries++) {
      await pass(2_000);
      const { reconcile, watermark } = await keepStore.read.status(clock.at);
      if (reconcile.state === 'idle' && watermark === newest) return;
      if (tries > 600) throw new Error(`replay does not reach its end: ${JSON.stringify(reconcile)}`);
    }
  }

  async function live(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      simulator.happen();
      clock.at += 1_000;
    }
    await webhooks.settled();
    await look();
  }

  /** Delivers a new event of the first number in this way. */
  function deliverNew(how?: DeliverOptions) {
    const event = history.next('MessageReceived', { sessionId: first });
    return webhook.deliver(event, how);
  }

  // Attempts that never reach the kit: the first of four deliveries, then seven of one.
  async function badRoad(): Promise<void> {
    for (const failure of [302, 500, 'silent', 'cut'] as const) {
      road.next(failure);
      await deliverNew();
      await look();
    }
    road.next(302, 500, 302, 500, 302, 500, 302);
    await deliverNew();
    await settle();
  }

  async function strangers(): Promise<void> {
    await send(receiver.port, bodyOf());
    await deliverNew({ forged: true });
    await deliverNew({ forged: true, ageSeconds: 90_000 });
    // It counts as evidence against our clock, until a good delivery.
    await deliverNew();
    await settle();
  }

  // Old timestamps fail all eight attempts, and then fifteen in a row.
  async function offByFailures(): Promise<void> {
    for (let n = 0; n < 3 && webhook.state() === 'enabled'; n++) {
      const { outcome } = await deliverNew({ ageSeconds: 400 });
      happened.add(outcome);
      await look();
    }
    happened.add(webhook.state());
    await live(5);
    webhook.enable();
    await live(3);
    await settle();
  }

  const off: SimulatedEvent[] = [];
  async function switchedOff(): Promise<void> {
    webhook.disable();
    happened.add(webhook.state());
    const before = history.all().length;
    await live(6);
    off.push(...history.all().slice(before));
    await settle();
    await pass(4 * MINUTE_MS);
    webhook.enable();
    await live(3);
    await settle();
  }

  async function rotation(): Promise<void> {
    const next = webhook.rotate({ grace: true });
    await live(3);
    clock.at += 25 * HOUR_MS;
    await settle();
    // The grace has ended. A person sets the new secret while the service retries.
    // Only an event that replay shows soon after its last pass counts as missed, so the clock must not jump.
    jumps = false;
    const delivering = deliverNew();
    await untilAsync(async () => {
      await pass(20_000);
      return [...words.alarm].some((text) => text.startsWith('secret_mismatch'));
    });
    receiver.verifier.useSecrets([next, SECRET]);
    receiver.health.useSecrets([next, SECRET]);
    await delivering;
    jumps = true;
    await live(3);
    await settle();
  }

  async function calls(): Promise<void> {
    errors.push(await refusalOf(clientOf('svc_test_unknown').call('GetApiKeyIdentity', {})));
    errors.push(...(await makeCalls(clientOf(apiKey), simulator, key)));
    clock.at += MINUTE_MS;
  }

  async function paidCalls(): Promise<void> {
    errors.push(...(await makePaidCalls(clientOf(apiKey), simulator)));
    await settle();
  }

  async function streamed(): Promise<void> {
    await startStream();
    await live(3);
    for (const reason of REFRESHES) await reopened(`stream refresh ${reason}`, () => streams.refuseNext(reason));
    for (const [status, reason] of [
      [400, 'EVENT_CURSOR_INVALID'],
      [503, 'EVENT_STREAM_UNAVAILABLE'],
    ] as const)
      await reopened(`stream ${status} ${reason}`, () => chaos.next(refuse(status, reason)));
    // More than ten streams are opened within a minute.
    await untilAsync(async () => {
      streams.end();
      await look();
      return happened.has('stream 429 RATE_LIMITED');
    });
    clock.at += MINUTE_MS;
    await live(3);
    await settle();
  }

  /** Ends the stream. The next one is refused in the way that `prepare` sets. */
  async function reopened(what: string, prepare: () => void): Promise<void> {
    clock.at += MINUTE_MS;
    await live(1);
    await until(() => streams.count() > 0, 'the stream to open');
    prepare();
    streams.end();
    await until(() => happened.has(what), what);
    await look();
  }

  // Replay is refused, its cursor is not known, and its filter leaves pages empty.
  async function replayRefused(): Promise<void> {
    keys.edit(key, { ips: ['203.0.113.7'] });
    await pass(2 * MINUTE_MS);
    keys.edit(key, { ips: undefined });
    await keepStore.state.note({}, { reconcile_asked: clock.at });
    await settle();
    chaos.next('503');
    chaos.next('cursor-invalid');
    await live(2);
    await settle();
    simulator.replay.filterAfterLimit = true;
    for (let n = 0; n < FOREIGN_EVENTS; n++) history.next('MessageReceived', { sessionId: foreign });
    await live(3);
    await settle();
  }

  async function forgotten(): Promise<void> {
    reconciler = undefined;
    webhook.disable();
    const before = history.all().length;
    await live(30);
    clock.at += HOUR_MS;
    history.expireUpTo(history.all()[before + 15]?.cursor ?? '');
    webhook.enable();
    await live(3);
    startKeep();
    await settle();
  }

  async function revoked(): Promise<void> {
    await startStream();
    keys.revoke(key);
    await following?.ended;
    const { outcome } = await deliverNew();
    happened.add(`key revoked, delivery ${outcome}`);
    errors.push(await refusalOf(clientOf(apiKey).call('GetApiKeyIdentity', {})));
    reconciler?.now();
    await pass(5 * MINUTE_MS);
    // A person makes a new key, and registers the webhook with it.
    ({ key, secret: apiKey } = createKey());
    ({ webhook } = await registerAt(key, SECRET));
    startKeep();
    await live(3);
    await settle();
  }

  startKeep();
  await deliverNew();
  await settle();
  for (const part of [badRoad, strangers, offByFailures, switchedOff, rotation, calls, paidCalls, streamed])
    await part();
  following?.stop.abort();
  await following?.ended;
  for (const part of [replayRefused, forgotten, revoked]) await part();

  const stored = receiver
    .query<{ cursor: Cursor; origin: string }>(
      'select cast(cursor as text) as cursor, origin from events where cursor is not null order by events.cursor',
    )
    .map(({ cursor, origin }) => ({ cursor, origin }));
  await until(() => ORDERS.every((order) => handled[order].length >= stored.length), 'all to be handled');
  for (const name of Object.keys(await receiver.counters()))
    if (name.startsWith('refused.')) happened.add(name.replace('.', ' '));
  const left = history.after(null, Infinity, ({ sessionId }) => sessionId !== foreign);
  for (const { cursor } of typeof left === 'string' ? [] : left.events) shown.add(cursor as Cursor);
  const wasOff = new Set(off.map(({ cursor }) => cursor));
  const day: Day = {
    happened,
    said: {
      log: [...receiver.lines, ...lines].map((line) => JSON.stringify(line)).join('\n'),
      alarm: [...words.alarm].join('\n'),
      status: [...words.status].join('\n'),
      error: errors.join('\n'),
    },
    readable: readable().map(({ cursor }) => cursor as Cursor),
    shown,
    stored: stored.map(({ cursor }) => cursor),
    handled,
    gaps: await keepStore.read.gaps(),
    backfilled: stored
      .filter(({ cursor, origin }) => origin === 'webhook' && wasOff.has(cursor))
      .map((one) => one.cursor),
    state: (await keepStore.read.status(clock.at)).reconcile.state,
  };
  await runner.drain(1_000);
  runStore.close();
  keepStore.close();
  await simulator.close();
  await road.close();
  await receiver.close();
  return day;
}

function noteHandled(handled: Handled[]) {
  return (
    event: { cursor: string | null; sessionId: string | null; data: unknown },
    ctx: { late: boolean; unproven: boolean },
  ) => {
    if (event.cursor === null) return;
    const { from } = event.data as { from?: string };
    const marked = ctx.late || ctx.unproven;
    handled.push({ cursor: event.cursor as Cursor, lane: `${event.sessionId}/${from}`, marked });
  };
}

async function untilAsync(holds: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 10_000; !(await holds());)
    if (performance.now() > end) throw new Error('waited too long for the day to go on');
}
