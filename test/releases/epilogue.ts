// The end of the story, on the store that the kit has closed: what a running kit leaves only by luck, or after days. The
// roles are the release's own.
import { planRerun } from '../../src/admin/rerun.ts';
import { open } from '../../src/store/open.ts';
import type { ListedEvent, Point, ShownTask } from '../../src/store/read.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { dataOfBody, readDelivery } from '../../src/wire/event.ts';
import type { Expected } from './expected.ts';
import { sources, wanting } from './handlers.ts';

/** Due times move back by more than the longest wait of a retry, so that a later kit need not wait. */
const BACK_MS = -7_200_000;
/** So few, that ids are also sorted into a segment of the index. A kit goes on with segments of any size. */
const IDS_IN_SEGMENT = 160;

interface Known {
  events: ListedEvent[];
  bodies: Map<string, Buffer>;
}

export async function finishStory(url: string): Promise<Omit<Expected, 'rows'>> {
  const store = open(url, { owner: true, idsInSegment: IDS_IN_SEGMENT });
  try {
    await store.processes.lead(true, Object.keys(sources));
    const known = await readAll(store);
    const owed = await owe(store, known);
    const noted = await claimOne(store);
    const { removed, purged } = await prune(store, known);
    await retryOne(store);
    const rerun = await askRerun(store, known);
    await alarm(store);
    await store.work.clockStepped(BACK_MS, store.now());
    const arrived = await arrive(store);
    await store.read.sample(store.now());
    const all = await readAll(store);
    for (const [key, body] of all.bodies) known.bodies.set(key, body);
    const due = await dueOf(store, [...owed, ...rerun, ...arrived]);
    return {
      ...due,
      noted,
      removed,
      purged,
      ...(await figures(store)),
      ...sent([...known.events, ...all.events], known),
    };
  } finally {
    store.close();
  }
}

async function readAll(store: Store): Promise<Known> {
  const { events } = await store.read.events({ limit: 1_000 }, store.now());
  const bodies = new Map<string, Buffer>();
  for (const { key } of events) {
    const body = await store.read.body(key);
    if (body) bodies.set(key, Buffer.from(body));
  }
  return { events, bodies };
}

type Pair = [handler: string, key: string];

/** The file of `late` is broken. An event turns out not to be history meanwhile, so `late` is owed its task. */
async function owe(store: Store, { events }: Known): Promise<Pair[]> {
  const others = Object.keys(sources).filter((name) => name !== 'late');
  await store.work.register(others, { of: new Map(), broken: ['renamed.ts'] });
  const event = events.find(({ type }) => type === 'MessageSent');
  if (!event) throw new Error('the story has no undecided event');
  await deliver(store, [envelope('evt_owed', 'MessageSent', event.cursor, { message_id: 'm-owed' })]);
  const { from, decided } = await store.work.pending(100);
  const seqs = decided.map(({ seq }) => seq);
  const boot = await store.processes.nextBoot();
  const fanOut = { from, upTo: from, tasks: [], undecided: [], decided: seqs };
  await store.work.turn({ now: store.now(), boot, settle: [], fanOut, room: 0, handlers: [] });
  return decided.map(({ key }): Pair => ['late', key]);
}

/** A process has claimed a task, and noted something about it. Nobody gave the claim back. */
async function claimOne(store: Store): Promise<Expected['noted']> {
  await store.admin.resume('ledger', store.now());
  const handlers = [...(await store.work.idsOf(['ledger'])).values()];
  const boot = await store.processes.nextBoot();
  const turn = await store.work.turn({ now: store.now(), boot, settle: [], fanOut: null, room: 1, handlers });
  const [claim] = turn.claims;
  if (!claim) throw new Error('no task of ledger could be claimed');
  await store.work.noteTask(claim, 'begun', JSON.stringify({ by: 'the release' }), store.now());
  return { handler: 'ledger', key: claim.event.key, notes: { begun: { by: 'the release' } } };
}

/** Removes the history from before the store, and the bodies of other finished events. */
async function prune(store: Store, { events }: Known): Promise<{ removed: string[]; purged: string[] }> {
  const old = events.filter(({ origin }) => origin === 'replay').map(({ receivedAt }) => receivedAt);
  const now = store.now();
  await store.keep.prune({ now, before: Math.min(...old) + 1, settled: 0, after: null, limit: 100 });
  await store.keep.purge(now + 1, null, 100);
  const left = await readAll(store);
  const keys = new Set(left.events.map(({ key }) => key));
  return {
    removed: events.flatMap(({ key }) => (keys.has(key) ? [] : [key])),
    purged: left.events.flatMap(({ key }) => (left.bodies.has(key) ? [] : [key])),
  };
}

/** A person retried a dead letter. No process has seen the change of its lane yet. */
async function retryOne(store: Store): Promise<void> {
  const [dead] = await store.admin.matching({ state: 'dead', handler: 'picky' }, store.now());
  if (dead === undefined) throw new Error('the story has no dead letter');
  await store.admin.retry([dead], store.now());
}

/** A person asked for a rerun, of which no task was made yet. */
async function askRerun(store: Store, { events }: Known): Promise<Pair[]> {
  const { tasks } = await store.read.tasks({ handler: 'ledger', state: 'done', limit: 100 }, store.now());
  const done = new Set(tasks.map(({ key }) => key));
  const own = events.flatMap(({ key, cursor }) =>
    done.has(key) && cursor !== null ? [{ key, at: BigInt(cursor) }] : [],
  );
  const [, last] = own.map(({ at }) => at).toSorted((one, other) => (one < other ? -1 : 1));
  const its = own.filter(({ at }) => at <= (last ?? 0n));
  const [from, to] = ['1', String(last)];
  const bounds: [Point, Point] = [from as Cursor, to as Cursor];
  const plan = await planRerun(store, { handler: 'ledger', type: 'MessageReceived', from, to }, bounds);
  await store.admin.askRerun(plan, store.now());
  return its.map(({ key }): Pair => ['ledger', key]);
}

/** One alarm is open, and people know of it. Another is over, and its all-clear is still to be sent. */
async function alarm(store: Store): Promise<void> {
  const now = store.now();
  for (const name of ['handler_failing', 'store_unwritable']) {
    await store.alarms.raise(name, 'told by the release', now);
    await store.alarms.told(name, 0, 1, now);
  }
  await store.alarms.clear('store_unwritable');
}

/** Events that no turn has made tasks of yet, and a gap. */
async function arrive(store: Store): Promise<Pair[]> {
  const above = BigInt((await store.replay.newestCursor()) ?? 0);
  const [session_id, from] = ['00000000-0000-4000-8000-000000000025', '15550109'];
  const message = { session_id, from, body: 'not fanned out' };
  const bodies = [
    envelope('evt_new_1', 'MessageReceived', String(above + 1n), { ...message, message_id: 'm-new-1' }),
    envelope('evt_new_2', 'MessageReceived', String(above + 2n), { ...message, message_id: 'm-new-2' }),
    envelope('evt_new_3', 'MessageSent', String(above + 3n), { session_id, message_id: 'm-new-3' }),
  ];
  const before = new Set((await readAll(store)).events.map(({ key }) => key));
  await deliver(store, bodies, { after: '5' as Cursor, upTo: '9' as Cursor, reason: 'told by the release' });
  const { events } = await readAll(store);
  const fresh = events.filter(({ key }) => !before.has(key));
  return fresh.flatMap(({ key, type }) => wanting(type).map((handler): Pair => [handler, key]));
}

type Gap = NonNullable<Parameters<Store['ingest']['accept']>[0]['gap']>;

async function deliver(store: Store, bodies: string[], gap?: Gap): Promise<void> {
  const readings = bodies.map((body) => readDelivery(Buffer.from(body)));
  await store.ingest.accept({ readings, now: store.now(), ...(gap && { gap }) });
}

function envelope(id: string, type: string, cursor: string | null, data: object): string {
  const created_at = new Date().toISOString();
  return JSON.stringify({ id, type, created_at, cursor, session_id: null, webhook_id: 'w', data: { [type]: data } });
}

async function waitingTasks(store: Store): Promise<ShownTask[]> {
  const states = ['ready', 'held', 'running'] as const;
  const found: ShownTask[] = [];
  for (const state of states) found.push(...(await store.read.tasks({ state, limit: 1_000 }, store.now())).tasks);
  return found;
}

/** The tasks that are still to run, and the order of those that wait in lanes. */
async function dueOf(store: Store, more: Pair[]): Promise<Pick<Expected, 'due' | 'lanes'>> {
  const tasks = await waitingTasks(store);
  const pairs = [...tasks.map(({ handler, key }): Pair => [handler, key]), ...more];
  const due = Object.fromEntries(
    [...Map.groupBy(pairs, ([handler]) => handler)].map(([handler, its]) => [
      handler,
      its.map(([, key]) => key).toSorted(),
    ]),
  );
  // A task that has stepped aside waits for no other. An event without a cursor of its own has no fixed place.
  const inLanes = tasks.filter(
    ({ handler, lane, key }) => lane !== null && handler !== 'aside' && key.startsWith('c:'),
  );
  const lanes = [...Map.groupBy(inLanes, ({ handler, lane }) => `${handler} ${lane}`)].map(([name, its]) => {
    const cursors = its.map(({ key }) => BigInt(key.slice(2))).toSorted((a, b) => (a < b ? -1 : 1));
    return [name, cursors.map((cursor) => `c:${cursor}`)] as const;
  });
  return { due, lanes: Object.fromEntries(lanes.filter(([, keys]) => keys.length > 1)) };
}

async function figures(store: Store): Promise<Pick<Expected, 'status' | 'alarms' | 'ledger' | 'steps'>> {
  const alarms = await store.alarms.raised();
  return {
    status: await figuresOf(store),
    alarms: alarms.map(({ name, cleared }) => ({ name, cleared })).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    ledger: await store.work.read('select key, words, runs from ledger order by key', []),
    steps: await store.work.steps(),
  };
}

/** The figures that an upgrade must keep. Others tell the time, or which processes run. */
export async function figuresOf(store: Store): Promise<Record<string, unknown>> {
  const status = await store.read.status(store.now());
  const { events, unassigned, undecided, duplicates, quarantined, conflicts, watermark, floor } = status;
  const { newestCursor, gaps, failureRun, paused, waiting } = status;
  // `run` counts which of the ready tasks are held.
  const { held, ready, ...ended } = status.tasks;
  const tasks = { waiting: held + ready, ...ended };
  const stored = { events, unassigned, undecided, duplicates, quarantined, conflicts, tasks, watermark, floor };
  return { ...stored, newestCursor, gaps, failureRun, paused, waiting: waiting.map(({ handler }) => handler) };
}

/** What the service sent, and what replay shows of it. */
function sent(events: ListedEvent[], { bodies }: Known): Pick<Expected, 'deliveries' | 'items'> {
  const named = new Map(events.map((event) => [event.key, event]));
  const own = [...named.values()].filter(({ origin }) => origin !== 'kit');
  const textOf = (key: string): string => bodies.get(key)?.toString() ?? '';
  return {
    deliveries: own.filter(({ origin }) => origin === 'webhook').map(({ key }) => textOf(key)),
    items: own
      .filter(({ key, cursor }) => key === `c:${cursor}`)
      .map(({ key, cursor, origin, type }) => ({
        cursor: String(cursor),
        json_payload: JSON.stringify({ [type]: dataOfBody(origin, type, Buffer.from(textOf(key))) }),
      })),
  };
}
