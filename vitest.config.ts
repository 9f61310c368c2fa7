// `unit` is quick; `handlers` holds your own tests; `system` starts real processes, kills them, and takes its time;
// `postgres` and `postgres-system` need a server, see test/postgres/run.ts.
import './src/base/node/checked.js';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { folder } from './test/memory-folder.ts';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
/** As in package.json, for a HANDLERS_DIR outside of this repository too. */
export const resolve = {
  alias: [
    { find: /^#kit$/, replacement: at('./src/kit.ts') },
    { find: /^#kit\/testing$/, replacement: at('./src/testing.ts') },
  ],
};

const OWN = 'test/handlers/**/*.test.ts';
const POSTGRES = 'test/postgres/*.test.ts';
const POSTGRES_SYSTEM = 'test/postgres/*.system.test.ts';
const SLOW = { testTimeout: 60_000, hookTimeout: 60_000 };
/** Tests of handlers, which run in memory and on PostgreSQL. */
const DELIVERING = ['templates/**/*.test.ts', 'test/tools/testing/{deliver,dialect}.test.ts'];
/** test/postgres/server has packages of its own. */
const PACKAGES = '**/node_modules/**';
/** Rules of the kit's own repository: its documents, sizes, dependencies and releases. A clone with another name is a team's. */
const HOUSE = [
  'test/{documents,readme,rings,supply-chain}.test.ts',
  'test/{releases,tools/init}/**',
  'test/system/{delete,small,update}.test.ts',
];
const { name } = JSON.parse(readFileSync(at('./package.json'), 'utf8')) as { name: string };
const OF_THE_KIT = name === 'webhook-receiver-kit' ? [] : HOUSE;
/** Tests of the whole kit have two folders. A test of one module that starts processes says so in its name. */
const SYSTEM = ['test/**/*.system.test.ts', 'test/{system,flow}/**/*.test.ts'];
/** `npm test` takes a sample of the cases of these, `npm run test:system` takes them all: test/cases.ts. */
const SAMPLED = [
  'test/store/poison.test.ts',
  'test/run/lanes.test.ts',
  'test/reconcile/stream{,-ages,-watermark}.test.ts',
];
/** These take longest, most first. They start first, because one that starts last would run alone at the end. */
const LONG = [
  'system/broken-handlers',
  'system/delete',
  'system/update',
  'system/prove-faults',
  'system/giant',
  'system/handlers',
  'system/mistakes',
  'system/page-fits',
  'system/store-alarms',
  'system/prove-crash',
  'releases/sqlite',
  'postgres/members',
  'postgres/releases',
  'postgres/faults',
  'postgres/catalogue',
  'postgres/store-concurrency',
  'reconcile/invalid-pages',
  'postgres/store',
  'flow/faulty-replay',
  'postgres/store-promises',
];
/** These run on both stores, see test/stores.ts. */
const BOTH = [
  'test/admin/types.test.ts',
  'test/run/{commits,drain,durations,failures,fan-out,lanes,order,rate-limited,rerun,set-up-handlers}.test.ts',
  'test/reconcile/{ahead,arrivals,expired-cursor,faults-over-time,faulty-items,gaps,invalid-pages,large-answers}.test.ts',
  'test/reconcile/{reconciler,refusals,stream,stream-ages,stream-watermark,unknown-cursor}.test.ts',
  'test/flow/{faulty-replay,outages}.test.ts',
];

/** Calls of `deliver` on a PostgreSQL server, each in a schema of its own. Otherwise they run in memory. */
function storeOf(server = '', also = {}): { env: Record<string, string>; globalSetup?: string } {
  if (!/^postgres(ql)?:/.test(server)) return { env: also };
  const url = new URL(server);
  url.searchParams.set('schema', `kit_test_${process.pid}`);
  return { env: { KIT_TEST_STORE: url.href, ...also }, globalSetup: 'test/handler-store.ts' };
}

function rank({ moduleId }: TestSpecification): number {
  const place = LONG.findIndex((file) => moduleId.includes(`/test/${file}.`));
  return place === -1 ? LONG.length : place;
}

/** Vitest remembers how long a file took, but `npm ci` makes it forget. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    // Every core: most tests wait for disks and sockets.
    maxWorkers: '100%',
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        resolve,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts', 'templates/**/*.test.ts'],
          exclude: [OWN, POSTGRES, PACKAGES, ...SYSTEM, ...OF_THE_KIT],
          // Files share processes and modules, which saves a third of the time. test/projects.test.ts holds what that needs.
          isolate: false,
          globalSetup: 'test/memory-folder.ts',
          env: { TMPDIR: folder },
          testTimeout: 20_000,
        },
      },
      {
        resolve,
        test: {
          name: 'handlers',
          include: [OWN],
          // On the database of your handlers, if the environment has its DATABASE_URL.
          ...storeOf(process.env['DATABASE_URL']),
          testTimeout: 20_000,
        },
      },
      {
        resolve,
        test: {
          name: 'postgres',
          include: [POSTGRES, ...DELIVERING, ...BOTH],
          exclude: [POSTGRES_SYSTEM, PACKAGES],
          ...storeOf(process.env['TEST_POSTGRES_URL'], { TEST_STORE: at('./test/postgres/kind.ts') }),
          ...SLOW,
        },
      },
      {
        resolve,
        test: {
          name: 'postgres-system',
          include: [POSTGRES_SYSTEM],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          // Two at a time, because they mostly wait, and an instance without a processor for 3 s is lost.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'system',
          // More files than cores, because they mostly wait for processes.
          maxWorkers: '150%',
          sequence: { groupOrder: 1 },
          include: [...SYSTEM, ...SAMPLED],
          exclude: [POSTGRES, PACKAGES, ...OF_THE_KIT],
          globalSetup: 'test/memory-folder.ts',
          env: { ALL_CASES: 'yes', TMPDIR: folder },
          testTimeout: 180_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
