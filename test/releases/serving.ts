// Starts the present kit on the store of a release, and holds that it serves it: nothing is lost, and nothing runs twice.
import { expect } from 'vitest';
import { open } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readItem } from '../../src/wire/event.ts';
import { API_KEY, item, startReplayServer, type ReplayServer } from '../reconcile/replay-server.ts';
import { createKit, type Kit } from '../system/kit.ts';
import { figuresOf } from './epilogue.ts';
import type { Expected } from './expected.ts';
import { sources, wanting } from './handlers.ts';
import { ranIn, send, until, type Ran } from './parts.ts';
import { kitCommand } from '../system/kit-command.ts';

interface Served {
  kit: Kit;
  env: Record<string, string>;
  expected: Expected;
  ran: () => Ran[];
  store: Store;
  server: ReplayServer;
  /** The cursor of an event that happened after the release. */
  fresh: string;
}

export interface Server {
  /** The folder of the kit that serves the store. */
  root: string;
  open: typeof open;
}
const PRESENT: Server = { root: '.', open };

export async function serve(url: string, expected: Expected, { root, open: opening }: Server = PRESENT): Promise<void> {
  await holdFigures(opening, url, expected);
  const server = await startReplayServer(Date.now);
  const newest = expected.items.map(({ cursor }) => BigInt(cursor)).reduce((a, b) => (a > b ? a : b));
  server.publish(...expected.items, item(newest + 1n));
  const env: Record<string, string> = {
    DATABASE_URL: url,
    API_BASE_URL: server.url,
    API_KEY,
    RECONCILE_INTERVAL_SECONDS: '1',
    RECONCILE_CALLS_PER_MINUTE: '119',
    RETENTION_DAYS: '36500',
    PAYLOAD_RETENTION_DAYS: '36500',
  };
  const kit = await createKit(sources, env, [], root);
  env['RAN'] = `${kit.folder}/ran`;
  try {
    await kit.start();
    const store = opening(url, { busyMs: 5_000 });
    const ran = (): Ran[] => ranIn(env['RAN'] ?? '');
    const served = { kit, env, expected, ran, store, server, fresh: String(newest + 1n) };
    await finishTasks(served, root);
    holdTasks(served);
    await holdLedger(served);
    await redeliver(served);
    await readByCommands(served, root);
    store.close();
    expect(await kit.stop()).toBe(0);
    holdTasks(served);
  } finally {
    await kit.remove();
    await server.close();
  }
  await holdIdentity(opening, url, expected);
}

/** The owner brings the schema up to date. What the release wrote is still there. */
async function holdFigures(opening: typeof open, url: string, expected: Expected): Promise<void> {
  const store = opening(url, { owner: true });
  try {
    expect(await figuresOf(store)).toEqual(expected.status);
    const alarms = (await store.alarms.raised()).map(({ name, cleared }) => ({ name, cleared }));
    expect(alarms.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(expected.alarms);
    expect(await store.work.read('select key, words, runs from ledger order by key', [])).toEqual(expected.ledger);
  } finally {
    store.close();
  }
}

async function finishTasks({ kit, env, store, fresh }: Served, root: string): Promise<void> {
  await kitCommand(kit, env, ['resume', 'paused'], root);
  await until(async () => (await store.state.get('watermark')) === fresh, 'replay to go on');
  await until(async () => {
    const { tasks, unassigned, waiting } = await store.read.status(store.now());
    const behind = (await store.work.behind()).size;
    return tasks.ready + tasks.running + tasks.held + unassigned + waiting.length + behind === 0;
  }, 'all tasks to end');
}

/** Each task that the release left waiting has run once, in the order of its lane, and no other has. */
function holdTasks({ ran, expected, fresh, server }: Served): void {
  const more = wanting('MessageReceived').map((handler): [string, string] => [handler, `c:${fresh}`]);
  const due = Object.entries(expected.due).flatMap(([handler, keys]) =>
    keys.map((key): [string, string] => [handler, key]),
  );
  const told = (pairs: [string, string][]): string[] => pairs.map((pair) => pair.join(' ')).toSorted();
  expect(told(ran().map(({ handler, key }) => [handler, key]))).toEqual(told([...due, ...more]));
  for (const [lane, keys] of Object.entries(expected.lanes)) {
    const name = lane.split(' ')[0];
    // Reruns have lanes of their own.
    const own = ran().flatMap(({ handler, key }) => (handler === name && keys.includes(key) ? [key] : []));
    expect(own, lane).toEqual(keys);
  }
  const { handler, key, notes } = expected.noted;
  expect(ran().find((one) => one.handler === handler && one.key === key)?.notes).toMatchObject(notes);
  const asked = server.requests.map(({ after }) => after);
  expect(asked, 'replay goes on from the watermark').toContain(expected.status['watermark']);
  expect(asked, 'replay does not begin anew').not.toContain(undefined);
}

/** The table of a handler's own has its rows, and its steps have not run again. */
async function holdLedger({ store, expected, fresh }: Served): Promise<void> {
  const runs = new Map(expected.ledger.map(({ key, runs: n }) => [key, Number(n)]));
  for (const key of [...(expected.due['ledger'] ?? []), `c:${fresh}`]) runs.set(key, (runs.get(key) ?? 0) + 1);
  const rows = await store.work.read('select key, runs from ledger order by key', []);
  expect(new Map(rows.map(({ key, runs: n }) => [key, Number(n)]))).toEqual(runs);
  expect(await store.work.steps()).toEqual(expected.steps);
}

async function redeliver({ kit, store, expected }: Served): Promise<void> {
  const before = (await store.read.status(store.now())).events;
  for (const body of expected.deliveries) await send(kit, body);
  const after = await store.read.status(store.now());
  expect(after.events).toBe(before);
  expect(after.conflicts, 'nothing contradicts itself').toBe(expected.status['conflicts']);
  expect(after.duplicates).toBeGreaterThan(Number(expected.status['duplicates']));
  expect(after.unassigned).toBe(0);
}

async function readByCommands({ kit, env, expected, store }: Served, root: string): Promise<void> {
  const json = async (...args: string[]): Promise<unknown> =>
    JSON.parse((await kitCommand(kit, env, [...args, '--json'], root)).out);
  expect(await json('status')).toMatchObject({ events: Number(expected.status['events']) + 1 });
  expect(await json('quarantine')).toMatchObject({ quarantine: { length: expected.status['quarantined'] } });
  for (const name of ['gaps', 'tasks', 'handlers', 'rerun']) await json(name);
  const { events } = await store.read.events({ limit: 1_000 }, store.now());
  const [conflict] = events.filter(({ key }) => key === 'i:evt_conflict');
  for (const key of [conflict?.key ?? '', ...expected.purged.slice(0, 2)]) await json('explain', key);
}

/** Replay shows everything once more. Nothing is new, also of what has lost its body, or was removed. */
async function holdIdentity(opening: typeof open, url: string, expected: Expected): Promise<void> {
  const store = opening(url, { owner: true });
  try {
    await store.processes.lead(true);
    const readings = expected.items.map(({ cursor, json_payload: text }) => readItem('replay', cursor as Cursor, text));
    const accepted = await store.ingest.accept({ readings, now: store.now() });
    expect(accepted.map(({ verdict, conflict }) => conflict?.reason ?? verdict)).toEqual(
      readings.map(() => 'duplicate'),
    );
    const removed = accepted.filter(({ pruned }) => pruned);
    expect(removed).toHaveLength(expected.removed.length);
  } finally {
    store.close();
  }
}
