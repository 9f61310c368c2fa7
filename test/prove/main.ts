// `npm run prove -- <campaign>` tries to break the promises of the README, and reports what did not hold. `--list` says
// what each campaign does.
import { parseArgs } from 'node:util';
import { textOf } from '../../src/cli/table.ts';
import { startServer } from '../postgres/server.ts';
import type { Options, Row } from './report.ts';

interface Campaign {
  what: string;
  /** `each`: it runs once on each. */
  store: 'SQLite' | 'PostgreSQL' | 'both' | 'each';
  /** Of the machine: a program, or rights. */
  needs?: string;
  load: () => Promise<(options: Options) => Promise<Row[]>>;
}

/** Each counts lost, doubled and misordered events and tasks. */
const CAMPAIGNS: Record<string, Campaign> = {
  kills: {
    what: '500 × SIGKILL of run, keep, main or all at random moments, under 200 deliveries a second',
    store: 'each',
    load: async () => (await import('./kills.ts')).kills,
  },
  calls: {
    what: 'SIGKILL of main, run and keep at each system call by which they write',
    store: 'each',
    needs: 'strace',
    load: async () => (await import('./calls.ts')).calls,
  },
  power: {
    what: 'power failures at each moment of a run, with what was not synced lost, torn or reordered',
    store: 'SQLite',
    needs: 'strace',
    load: async () => (await import('./power.ts')).power,
  },
  faults: {
    what: 'under load: a full disk, a locked store, a deleted one, a clock that is set',
    store: 'SQLite',
    needs: 'root',
    load: async () => (await import('./faults.ts')).faults,
  },
  handlers: {
    what: '13 hostile handlers, which loop, leak, exit or break globals, each beside a good one',
    store: 'each',
    load: async () => (await import('./handlers.ts')).handlers,
  },
  bars: {
    what: 'deaths beside good work, 40 bodies of 4 MiB at once, 300 hanging calls, a foreign reader: each within a limit',
    store: 'each',
    load: async () => (await import('./bars.ts')).bars,
  },
  members: {
    what: '500 kills, freezes and cuts of three kits on one server, under 200 deliveries a second',
    store: 'PostgreSQL',
    load: async () => (await import('./members.ts')).members,
  },
  copy: {
    what: 'a store of a million events is copied to PostgreSQL, under 200 deliveries a second',
    store: 'both',
    needs: 'caddy',
    load: async () => (await import('./copy.ts')).copy,
  },
  mutate: {
    what: 'faults are planted in the rules, one by one: a test must see each',
    store: 'both',
    load: async () => (await import('./mutate.ts')).mutate,
  },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(['short', 'list', 'help'].map((name) => [name, { type: 'boolean' as const }])),
});
if (values['list'] || values['help']) {
  console.log(
    textOf(Object.entries(CAMPAIGNS).map(([name, { what, store, needs = '' }]) => ({ name, store, needs, what }))),
  );
  console.log('\nnpm run prove -- [--short] [name …]   each: once on each store. --short: a few minutes in all');
  process.exit();
}
// A kit ends when this process does.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const names = positionals.length > 0 ? positionals : Object.keys(CAMPAIGNS);
const unknown = names.find((name) => !CAMPAIGNS[name]);
if (unknown) {
  console.error(`there is no campaign ${unknown}: there are ${Object.keys(CAMPAIGNS).join(', ')}`);
  process.exit(2);
}
const rows: Row[] = [];
for (const name of names) {
  const campaign = CAMPAIGNS[name];
  const run = await campaign?.load();
  const options = { short: values['short'] === true, progress: (line: string) => console.error(line) };
  if (run) rows.push(...(await run(options)));
  if (run && campaign?.store === 'each') {
    const { url: postgres, stop } = await startServer({ safe: true });
    rows.push(...(await run({ ...options, postgres })).map((row) => ({ ...row, what: `PostgreSQL: ${row.what}` })));
    await stop();
  }
}
console.log(textOf(rows.map(({ what, seen, violations }) => ({ what, seen, violations: violations.length }))));
for (const { what, violations } of rows) for (const one of violations.slice(0, 20)) console.log(`\n${what}: ${one}`);
const broken = rows.filter(({ violations }) => violations.length > 0).length;
console.log(broken === 0 ? '\nEverything held.' : `\n${broken} of ${rows.length} did not hold.`);
process.exit(broken === 0 ? 0 : 1);
