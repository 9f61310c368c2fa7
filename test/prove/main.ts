// `npm run prove -- <campaign>` tries to break the promises of the README, and reports what did not hold.
import { parseArgs } from 'node:util';
import { textOf } from '../../src/cli/table.ts';
import type { Options, Row } from './report.ts';

const CAMPAIGNS: Record<string, () => Promise<(options: Options) => Promise<Row[]>>> = {
  kills: async () => (await import('./kills.ts')).kills,
  calls: async () => (await import('./calls.ts')).calls,
  power: async () => (await import('./power.ts')).power,
  faults: async () => (await import('./faults.ts')).faults,
  handlers: async () => (await import('./handlers.ts')).handlers,
  bars: async () => (await import('./bars.ts')).bars,
  members: async () => (await import('./members.ts')).members,
  copy: async () => (await import('./copy.ts')).copy,
  mutate: async () => (await import('./mutate.ts')).mutate,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { short: { type: 'boolean', default: false } },
});
const names = positionals.length > 0 ? positionals : Object.keys(CAMPAIGNS);
const unknown = names.find((name) => !CAMPAIGNS[name]);
if (unknown) {
  console.error(`there is no campaign ${unknown}: there are ${Object.keys(CAMPAIGNS).join(', ')}`);
  process.exit(2);
}
const rows: Row[] = [];
for (const name of names) {
  const campaign = await CAMPAIGNS[name]?.();
  if (campaign) rows.push(...(await campaign({ short: values.short, progress: (line) => console.error(line) })));
}
console.log(textOf(rows.map(({ what, seen, violations }) => ({ what, seen, violations: violations.length }))));
for (const { what, violations } of rows) for (const one of violations.slice(0, 20)) console.log(`\n${what}: ${one}`);
const broken = rows.filter(({ violations }) => violations.length > 0).length;
console.log(broken === 0 ? '\nEverything held.' : `\n${broken} of ${rows.length} did not hold.`);
process.exit(broken === 0 ? 0 : 1);
