// Runs instances of the kit on a PostgreSQL server under load, and produces a fault. The kit has a role and a database of
// its own, so that a fault can take away its rights and its connections.
import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCluster, send, until, type Cluster } from '../../../postgres/members.ts';
import { createProxy, type Proxy } from '../../../postgres/proxy.ts';
import { hasServer, startServer, type Server } from '../../../postgres/server.ts';
import { RECORD, type Kit } from '../../../system/kit.ts';
import { ask, eventually, Lacking, type Found } from '../scene.ts';
import { judgeAnswers, judgeStore } from './judge.ts';

/** Readiness and the alarm follow a fault within this time. */
const TOLD_MS = 5_000;
const BACK_MS = 15_000;

/** `RECORD` with the types of PostgreSQL. */
export const RECORDS = RECORD.replace('n integer primary', 'n bigint generated always as identity primary').replace(
  'cursor integer',
  'cursor bigint',
);

export interface Scene {
  server: Server;
  cluster: Cluster;
  kits: Kit[];
  /** Where the kit finds its store. */
  url: string;
  proxy(): Proxy;
  /** Runs SQL as the superuser, in the database of the kit. */
  admin<Row extends object>(sql: string): Promise<Row[]>;
  /** Starts an instance. */
  add(env?: Record<string, string>, address?: string): Promise<Kit>;
  /** Starts an instance that must refuse to start, with words that match. Resolves to the words. */
  refuses(words: RegExp): Promise<string>;
  /** Sends deliveries at this rate to all instances in turn. */
  load(perSecond: number): void;
  /** Resolves when this many more deliveries are acknowledged. */
  acknowledge(more: number): Promise<void>;
  /** Stops the load. */
  rest(): Promise<void>;
  holds(holds: boolean, otherwise: string): void;
}

export interface SceneOptions {
  handler?: string;
  /** The instances that are started at first. */
  instances?: number;
  /** Lines of postgresql.conf. */
  settings?: string[];
  /** SQL of the superuser that makes the role and the database. */
  setup?: string[];
  small?: Parameters<typeof startServer>[1];
  /** A proxy stands between the instances and the server. */
  proxied?: boolean;
  /** Statuses that the fault may cause besides 204. 0 is a connection that was refused or cut. */
  allowed?: number[];
}

const SETUP = ['create role kit login', 'create database kit owner kit'];

export async function stage(options: SceneOptions, play: (scene: Scene) => Promise<string>): Promise<Found> {
  if (!hasServer()) throw new Lacking('a PostgreSQL server: npm run test:postgres installs it');
  const {
    handler = RECORDS,
    instances = 2,
    settings = [],
    setup = SETUP,
    small,
    proxied = false,
    allowed = [],
  } = options;
  const server = await startServer(settings, small);
  const as = (user: string): string => `postgres://${user}@127.0.0.1:${server.port}/kit`;
  const first = await createCluster(server.url, { record: handler });
  for (const sql of setup) await first.rows(sql);
  await first.remove();
  const proxy = proxied ? await createProxy(as('kit')) : undefined;
  const cluster = await createCluster(as('postgres'), { record: handler });
  const { kits } = cluster;
  const violations: string[] = [];
  const acknowledged = new Set<number>();
  const answers: ReturnType<typeof send>['answers'] = [];
  let running: ReturnType<typeof send> | undefined;
  let next = 0;

  const scene: Scene = {
    server,
    cluster,
    kits,
    url: proxy?.url ?? as('kit'),
    proxy: () => proxy ?? raise('the scene has no proxy'),
    admin: (sql) => cluster.rows(sql),
    async add(env, address = scene.url) {
      const kit = await cluster.make(env, address);
      kit.agent = new Agent({ keepAlive: true });
      await kit.start();
      return kit;
    },
    async refuses(words) {
      const kit = await cluster.make({}, scene.url);
      const started = await kit.start().then(
        () => true,
        () => false,
      );
      kits.splice(kits.indexOf(kit), 1);
      const code = started ? await kit.stop() : await kit.exited();
      const said = kit.output().trim();
      await kit.remove();
      scene.holds(!started && code === 78, `the start ended with ${code}, or was not refused`);
      scene.holds(words.test(said), `the refusal does not say ${words.source}: "${said.slice(0, 300)}"`);
      scene.holds(!/\n\s+at /.test(said), 'the refusal has a stack');
      return `refused: "${said.slice(0, 200)}"`;
    },
    load(perSecond) {
      running = send([...kits], perSecond, 10, next);
    },
    async acknowledge(more) {
      const of = running?.acknowledged ?? acknowledged;
      const enough = of.size + more;
      await until(() => of.size >= enough);
    },
    async rest() {
      await running?.stop();
      for (const cursor of running?.acknowledged ?? []) acknowledged.add(cursor);
      answers.push(...(running?.answers ?? []));
      next = running?.sent() ?? next;
      running = undefined;
    },
    holds: (holds, otherwise) => void (holds || violations.push(otherwise)),
  };

  try {
    for (let n = 0; n < instances; n++) await scene.add();
    const seen = await play(scene);
    await scene.rest();
    violations.push(...judgeAnswers(answers, allowed), ...(await judgeStore(cluster, acknowledged)));
    const codes = await Promise.all(kits.map((kit) => kit.stop()));
    scene.holds(
      codes.every((code) => code === 0),
      `the instances ended with ${codes.join()}`,
    );
    return { seen: `${seen}; ${wordsOf(answers)}`, violations };
  } finally {
    await running?.stop();
    proxy?.pass();
    await cluster.remove();
    proxy?.close();
    await server.stop();
  }
}

function raise(message: string): never {
  throw new Error(message);
}

function wordsOf(answers: { status: number; ms: number }[]): string {
  const counts = [...Map.groupBy(answers, ({ status }) => status)];
  return counts
    .map(([status, of]) => {
      const longest = Math.max(...of.map(({ ms }) => ms)) / 1_000;
      return `${of.length} × ${status || 'no answer'} (longest ${longest.toFixed(1)} s)`;
    })
    .join(', ');
}

export const readyOf = async (kit: Kit): Promise<number> => (await ask(kit.port, '/readyz')).status;

interface Outage {
  begin(): Promise<unknown>;
  end(): Promise<unknown>;
  /** How long it lasts, milliseconds. */
  ms?: number;
  /** The instances whose store fails. Default: all. */
  of?: Kit[];
  /** What the alarm must say. */
  words?: RegExp;
  /** Deliveries a second. */
  rate?: number;
}

/** A fault that makes the store unusable under load. Instances say so within seconds, and come back by themselves. */
export async function outage(scene: Scene, { begin, end, ms = 10_000, of, words = /./, rate = 10 }: Outage) {
  const kits = of ?? scene.kits;
  scene.load(rate);
  await scene.acknowledge(2 * rate);
  const before = kits.map((kit) => kit.output().length);
  const alarms = (n: number): string[] =>
    (kits[n]?.output() ?? '')
      .slice(before[n])
      .split('\n')
      .filter((line) => line.includes('"alarm":"store_unwritable"'));
  await begin();
  const began = performance.now();
  const since = (from: number): string => `${((performance.now() - from) / 1_000).toFixed(1)} s`;
  const seen = await Promise.all(
    kits.map(async (kit, n) => {
      const down = eventually(async () => (await readyOf(kit)) === 503, TOLD_MS).then((is) => [is, since(began)]);
      const told = eventually(() => alarms(n).length > 0, 2 * TOLD_MS).then((is) => [is, since(began)]);
      const [[isDown, downAfter], [isTold, toldAfter]] = await Promise.all([down, told]);
      scene.holds(isDown === true, 'readiness did not go down');
      scene.holds(isTold === true && parseFloat(String(toldAfter)) <= 5, `the alarm was raised after ${toldAfter}`);
      return `not ready after ${downAfter}, alarm after ${toldAfter}`;
    }),
  );
  await sleep(began + ms - performance.now());
  for (const n of kits.keys())
    scene.holds(
      alarms(n).some((line) => words.test(line)),
      `the alarm does not say ${words.source}: ${alarms(n).at(-1)?.slice(0, 400)}`,
    );
  await end();
  const ended = performance.now();
  const back = await Promise.all(kits.map((kit) => eventually(async () => (await readyOf(kit)) === 200, BACK_MS)));
  scene.holds(!back.includes(false), 'readiness did not come back');
  seen.push(`ready ${since(ended)} after the end`);
  await scene.acknowledge(2 * rate);
  const clear = (n: number): boolean => alarms(n).some((line) => line.includes('all clear'));
  scene.holds(await eventually(() => [...kits.keys()].every(clear), BACK_MS), 'the alarm did not end');
  await scene.rest();
  return seen.join(', ');
}
