// The story that a release tells before its store is kept: a real kit beside the simulated service, until the store holds
// rows of every kind. What a running kit leaves only by luck is written by the store's roles after it has ended.
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { open } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { createKit, SECRET, type Kit } from '../system/kit.ts';
import { finishStory } from './epilogue.ts';
import type { Expected } from './expected.ts';
import { sources } from './handlers.ts';
import { command, send, until } from './parts.ts';

const TOKEN = 'a_token_of_the_release_story';
/** The people who write in the story. */
const [ANA, BEA] = ['15550101', '15550102'];

type Service = ReturnType<typeof createSimulatedService>;
type Webhook = Awaited<ReturnType<Service['webhooks']['register']>>['webhook'];

interface Scene {
  kit: Kit;
  /** The kit reads it at each start. */
  env: Record<string, string>;
  service: Service;
  /** Reads the store while the kit runs. */
  store: Store;
  key: Parameters<Service['webhooks']['register']>[0];
  /** A message from this person in the first number. */
  message: (from: string, body: string) => Parameters<Service['happen']>;
}

/** Tells the story on this new store. Resolves to what a later kit must find in it. */
export async function tellStory(url: string, backups: string | undefined): Promise<Omit<Expected, 'rows'>> {
  // On a busy machine a delivery may fail. Its retry must not take half a minute.
  const service = createSimulatedService({ seed: 25, sessions: 2, addresses: { loopback: true }, speed: 100 });
  const { key, secret } = service.keys.create({ name: 'story', scopes: ['events:read'], validDays: null });
  const env: Record<string, string> = {
    DATABASE_URL: url,
    STORY: 'yes',
    OPS_TOKEN: TOKEN,
    API_BASE_URL: await service.listen(),
    API_KEY: secret,
    REPLAY_FROM: 'start',
    RECONCILE_INTERVAL_SECONDS: '1',
    RECONCILE_CALLS_PER_MINUTE: '119',
    ...(backups !== undefined && { BACKUP_DIR: backups }),
  };
  const kit = await createKit(sources, env);
  env['RAN'] = `${kit.folder}/ran`;
  const message: Scene['message'] = (from, body) => [
    1,
    'MessageReceived',
    { sessionId: service.history.numbers[0] ?? null, data: { from, body } },
  ];
  try {
    await happenBefore(service);
    await kit.start();
    const store = open(url, { busyMs: 5_000 });
    const scene = { kit, env, service, store, key, message };
    const webhook = await life(scene);
    await restart(scene, { STREAM: 'on', RECONCILE_INTERVAL_SECONDS: '3600' }, () => happenWhileOff(scene, webhook));
    await streamed(scene, webhook);
    await withoutService(scene);
    store.close();
    if ((await kit.stop()) !== 0) throw new Error(`the kit did not stop well:\n${kit.output()}`);
    return await finishStory(url);
  } finally {
    await kit.remove();
    await service.close();
  }
}

/** History from before the store. Its last two events tell no time, so they stay undecided. */
async function happenBefore({ history }: Service): Promise<void> {
  for (let n = 0; n < 4; n++) history.next('MessageReceived', { data: { from: ANA, body: `before the store ${n}` } });
  history.bare('on');
  for (let n = 0; n < 2; n++) history.next('MessageSent');
  history.bare('off');
}

const newest = ({ history }: Service): string => history.all().at(-1)?.cursor ?? '';
async function caughtUp({ store, service }: Scene): Promise<void> {
  const shown = async (): Promise<boolean> => (await store.state.get('watermark')) === newest(service);
  await until(shown, 'replay or stream to show all events').catch(async (error: Error) => {
    const { watermark, reconcile, stream } = await store.read.status(store.now());
    throw new Error(`${error.message}: ${JSON.stringify({ watermark, newest: newest(service), reconcile, stream })}`);
  });
}

async function tasksOf({ store }: Scene, handler: string, state: 'done' | 'dead' | 'skipped'): Promise<number> {
  return (await store.read.tasks({ handler, state, limit: 1_000 }, store.now())).tasks.length;
}

/** Deliveries, duplicates and what contradicts them; then events that only replay brings. */
async function life(scene: Scene): Promise<Webhook> {
  const { kit, env, service, key, message } = scene;
  const { history, webhooks } = service;
  await caughtUp(scene);
  await command(kit, env, 'pause', 'paused', '--reason', 'until the release');
  const { webhook } = await webhooks.register(key, { url: `http://localhost:${kit.port}/webhooks`, secret: SECRET });
  service.happen(...message(ANA, 'step aside'));
  for (let n = 0; n < 4; n++) service.happen(...message(n % 2 ? BEA : ANA, `hello ${n}`));
  for (const status of ['sent', 'failed', 'failed', 'read'])
    service.happen(1, 'MessageStatusUpdated', { data: { status } });
  service.happen(1, 'CampaignUpdated');
  await webhooks.ping(webhook);
  await webhooks.settled();
  const [first] = history.all().filter(({ data }) => data['body'] === 'hello 0');
  if (!first) throw new Error('the first message is gone');
  for (let n = 0; n < 3; n++) await webhook.deliver(first);
  await contradict(kit, first);
  await caughtUp(scene);
  webhook.disable();
  const missed = [...service.happen(...message(ANA, 'missed')), ...service.happen(...message(BEA, 'missed'))];
  await caughtUp(scene);
  webhook.enable();
  if (missed[0]) await webhook.deliver(missed[0]);
  await until(async () => (await tasksOf(scene, 'aside', 'done')) >= 6, 'the followers of a task that stepped aside');
  await until(async () => (await tasksOf(scene, 'picky', 'dead')) === 2, 'the dead letters');
  await until(async () => (await tasksOf(scene, 'picky', 'skipped')) === 1, 'the skipped task');
  await command(kit, env, 'rerun', '--handler', 'every', '--from', first.cursor ?? '', '--yes');
  return webhook;
}

type Told = ReturnType<Service['history']['all']>[number];

/** Deliveries that no service should send: each leaves another kind of row. */
async function contradict(kit: Kit, known: Told): Promise<void> {
  const envelope = {
    id: known.id,
    type: known.type,
    created_at: known.createdAt,
    cursor: known.cursor,
    webhook_id: 'w',
  };
  const data = { MessageReceived: known.data };
  const other = { MessageReceived: { ...known.data, body: 'something else' } };
  const place = { session_id: known.sessionId };
  // The same event under another id; another event with its cursor; its id with other data.
  await send(kit, { ...envelope, ...place, id: 'evt_alias', data });
  await send(kit, { ...envelope, ...place, id: 'evt_conflict', data: other });
  await send(kit, { ...envelope, ...place, data: other });
  await send(kit, { ...envelope, id: 'evt_plain', cursor: null, type: 'Thing', data: { Thing: { of: 'no session' } } });
  await send(kit, '{"no');
  await send(kit, { ...envelope, id: 'evt_unreadable', cursor: 'a word', data });
}

async function restart({ kit, env }: Scene, changes: Record<string, string>, meanwhile: () => void): Promise<void> {
  const code = await kit.stop();
  if (code !== 0) throw new Error(`the kit ended with ${code}:\n${kit.output()}`);
  meanwhile();
  Object.assign(env, changes);
  await kit.start();
}

/** The service forgets the first of these events before the kit is back, which leaves a gap. */
function happenWhileOff({ service, message }: Scene, webhook: Webhook): void {
  webhook.disable();
  for (let n = 0; n < 3; n++) service.happen(...message(ANA, `while the kit was off ${n}`));
  service.history.expireUpTo(service.history.all().at(-2)?.cursor ?? '');
}

/** Events that only the stream brings, and a person who has logged in. */
async function streamed(scene: Scene, webhook: Webhook): Promise<void> {
  const { kit, service, store, message } = scene;
  await until(async () => (await store.read.gaps()).some(({ closedAt }) => closedAt !== null), 'the gap to be closed');
  await caughtUp(scene);
  const isOpen = async (): Promise<boolean> => (await store.read.status(store.now())).stream.state === 'open';
  await until(isOpen, 'the stream to open');
  const body = new URLSearchParams({ token: TOKEN });
  const origin = `http://127.0.0.1:${kit.opsPort}`;
  const login = (): Promise<number> =>
    fetch(`${origin}/login`, { method: 'POST', headers: { origin }, body, redirect: 'manual' }).then(
      ({ status }) => status,
      () => 0,
    );
  await until(async () => (await login()) === 303, 'the log-in');
  for (let n = 0; n < 2; n++) service.happen(...message(BEA, `live ${n}`));
  await caughtUp(scene);
  webhook.enable();
}

/** The service is gone, so strict tasks are held. The other tasks wait for a retry, behind one, or for `resume`. */
async function withoutService(scene: Scene): Promise<void> {
  const { kit, env, service, store } = scene;
  const above = BigInt(newest(service));
  const session_id = service.history.numbers[0];
  await service.close();
  await command(kit, env, 'pause', 'ledger');
  const bodies = ['block', 'behind it 1', 'behind it 2', 'behind it 3'];
  for (const [n, body] of bodies.entries()) {
    const cursor = String(above + BigInt(n + 1));
    const created_at = new Date().toISOString();
    const data = { session_id, from: ANA, body, message_id: `m-${n}`, timestamp_unix_ms: Date.now() };
    const envelope = { id: `evt_last_${n}`, type: 'MessageReceived', created_at, cursor, session_id, webhook_id: 'w' };
    await send(kit, { ...envelope, data: { MessageReceived: data } });
  }
  const has = async (handler: string, state: 'ready' | 'held', count: number): Promise<boolean> =>
    (await store.read.tasks({ handler, state, limit: 100 }, store.now())).tasks.length >= count;
  await until(() => has('strict', 'held', bodies.length), 'strict tasks to be held');
  await until(() => has('ledger', 'ready', bodies.length), 'tasks to wait for a paused handler');
  await until(async () => {
    const { tasks } = await store.read.tasks({ handler: 'blocked', state: 'ready', limit: 100 }, store.now());
    return tasks.length === bodies.length && tasks.some(({ attempts, error }) => attempts === 1 && error !== null);
  }, 'a task that holds its lane');
  const settled = ['every', 'aside'];
  for (const handler of settled)
    await until(async () => !(await has(handler, 'ready', handler === 'aside' ? 2 : 1)), `${handler} to rest`);
}
