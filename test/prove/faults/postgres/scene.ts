// Runs instances of the kit on a PostgreSQL server under load, and produces a fault. The kit has a role and a database of
// its own, so that a fault can take away its rights and its connections.
import { Agent } from 'node:http';
import { EXIT } from '../../../../src/base/errors.ts';
import { createCluster, send, type Cluster } from '../../../postgres/members.ts';
import { createProxy, type Proxy } from '../../../postgres/proxy.ts';
import { hasServer, startServer, type Server } from '../../../postgres/server.ts';
import { RECORD, until, type Kit } from '../../../system/kit.ts';
import { Lacking, type Found } from '../scene.ts';
import { judgeAnswers, judgeStore } from './judge.ts';

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
  admin: <Row extends object>(sql: string) => Promise<Row[]>;
  /** Starts an instance. */
  add(env?: Record<string, string>, address?: string): Promise<Kit>;
  /**
   * Starts an instance that must refuse to start, with words that match. Resolves to the words. If the fault `passes`,
   * the code must be 69, so that the start is repeated.
   */
  refuses(words: RegExp, passes?: 'passes'): Promise<string>;
  /** Sends deliveries at this rate to these instances in turn. Default: all. */
  load(perSecond: number, to?: Kit[]): void;
  /** Resolves when this many more deliveries are acknowledged. */
  acknowledge(more: number): Promise<void>;
  /** A folder for files of the fault. */
  folder: string;
  /** Stops the load. */
  rest(): Promise<void>;
  /** Judges the store and stops the instances, which otherwise follows after the play. */
  finish(): Promise<void>;
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
  let finished = false;

  const scene: Scene = {
    server,
    cluster,
    kits,
    folder: cluster.folder,
    url: proxy?.url ?? as('kit'),
    proxy: () => proxy ?? raise('the scene has no proxy'),
    admin: (sql) => cluster.rows(sql),
    async add(env, address = scene.url) {
      const kit = await cluster.make(env, address);
      kit.agent = new Agent({ keepAlive: true });
      await kit.start();
      return kit;
    },
    async refuses(words, passes) {
      const kit = await cluster.make({}, scene.url);
      const started = await kit.start().then(
        () => true,
        () => false,
      );
      kits.splice(kits.indexOf(kit), 1);
      const code = started ? await kit.stop() : await kit.exited();
      const said = kit.output().trim();
      await kit.remove();
      const due = passes ? EXIT.unreachable : EXIT.configuration;
      scene.holds(!started && code === due, `the start ended with ${code} in place of ${due}, or was not refused`);
      scene.holds(words.test(said), `the refusal does not say ${words.source}: "${said.slice(0, 300)}"`);
      scene.holds(!/\n\s+at /.test(said), 'the refusal has a stack');
      return `refused: "${said.slice(0, 200)}"`;
    },
    load(perSecond, to = [...kits]) {
      running = send(to, perSecond, 10, next);
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
    async finish() {
      finished = true;
      await scene.rest();
      violations.push(...(await judgeStore(cluster, acknowledged)));
      const codes = await Promise.all(kits.map((kit) => kit.stop()));
      const all = codes.every((code) => code === 0);
      scene.holds(all, `the instances ended with ${codes.join()}`);
    },
    holds: (holds, otherwise) => void (holds || violations.push(otherwise)),
  };

  try {
    for (let n = 0; n < instances; n++) await scene.add();
    const seen = await play(scene);
    if (!finished) await scene.finish();
    violations.push(...judgeAnswers(answers, allowed));
    return { seen: `${seen}; ${wordsOf(answers)}`, violations };
  } finally {
    if (process.env['SHOW']) await running?.stop();
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
