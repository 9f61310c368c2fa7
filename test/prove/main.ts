// `npm run prove -- <campaign>` tries to break the promises of the README and reports what did not hold. The printed
// seed repeats a run, as far as the timing of processes allows.
import '../../src/base/node/checked.js';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { printTable } from '../../src/cli/lib/table.ts';
import { describe, EXIT } from '../../src/base/errors.ts';
import { endsWithSignals } from '../bench/asked.ts';
import { MissingTool, UnknownCase, type Options, type Report } from './report.ts';

type Campaign = (options: Options) => Promise<Report>;

const CAMPAIGNS = ['crash', 'faults', 'inputs', 'members'];
const USAGE = `Usage: npm run prove -- <${CAMPAIGNS.join(' | ')}> [--seed <number>] [--short] [--only <case>] [--json]
  crash    kills every process at each of its writes, then loses power: about an hour, needs strace
  faults   failing disks, locks, clocks, handlers and senders, and PostgreSQL: half an hour
  inputs   the catalogue of bad inputs, and 100,000 random cases: a few minutes
  members  several instances on PostgreSQL, killed, stopped and cut off 500 times: a quarter of an hour
  --short  a sample of each, under a minute; --seed repeats a run; --json for machines
  --only   faults: the cases of a number, such as F46, or whose name contains the text
Exit codes: 0 everything held, 1 violations, 2 wrong argument, 69 a tool is missing.`;

// An explicit exit, because a failed campaign may leave open handles.
process.exit(await main());

async function main(): Promise<number> {
  if (process.argv.includes('--help')) {
    process.stdout.write(`${USAGE}\n`);
    return EXIT.done;
  }
  const asked = read();
  if (typeof asked === 'string') return fail(`${asked}\n\n${USAGE}`, EXIT.usage);
  const { name, json, options } = asked;
  const folder = mkdtempSync(join(tmpdir(), 'kit-prove-'));
  // All temporary files of a campaign go into this folder, which is removed at exit. A PostgreSQL server runs as another
  // user, who must be able to pass through it.
  chmodSync(folder, 0o711);
  process.env['TMPDIR'] = folder;
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  endsWithSignals();
  const { campaign } = (await import(`./${name}.ts`)) as { campaign: Campaign };
  try {
    const report = await campaign(options);
    if (json) process.stdout.write(`${JSON.stringify({ ...report, seed: options.seed }, null, 2)}\n`);
    else show(report, options.seed);
    return report.rows.some(({ violations }) => violations.length > 0) ? EXIT.failed : EXIT.done;
  } catch (error) {
    if (error instanceof UnknownCase) return fail(error.message, EXIT.usage);
    if (error instanceof MissingTool) return fail(error.message, EXIT.unreachable);
    const { name: kind, message, at } = describe(error);
    return fail(`${kind}: ${message}${at ? ` (${at})` : ''}, seed ${options.seed}`, EXIT.failed);
  }
}

/** The checked arguments, or a message about the wrong one. */
function read(): { name: string; json: boolean; options: Options } | string {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        seed: { type: 'string', default: String(Date.now() % 1_000_000) },
        short: { type: 'boolean', default: false },
        only: { type: 'string' },
        json: { type: 'boolean', default: false },
      },
    });
    const [name = '', ...others] = positionals;
    const seed = Number(values.seed);
    if (name === '') return 'A campaign is missing.';
    if (!CAMPAIGNS.includes(name)) return `Unknown campaign ${JSON.stringify(name)}.`;
    if (others.length > 0) return `Only one campaign is allowed, not also ${JSON.stringify(others.join(' '))}.`;
    if (values.only !== undefined && name !== 'faults') return '--only is an option of faults alone.';
    if (!Number.isSafeInteger(seed)) return `--seed ${JSON.stringify(values.seed)} is not a whole number.`;
    const progress = (line: string): void => void process.stderr.write(`${line}\n`);
    return { name, json: values.json, options: { seed, short: values.short, only: values.only, progress } };
  } catch (error) {
    return describe(error).message;
  }
}

function show({ title, rows }: Report, seed: number): void {
  process.stdout.write(`${title}, seed ${seed}\n\n`);
  printTable(
    ['what', 'seen', 'violations'],
    rows.map(({ what, seen, violations }) => [what, seen, violations.length]),
  );
  for (const { what, violations } of rows)
    for (const violation of violations) process.stdout.write(`\n${what}: ${violation}\n`);
  const broken = rows.filter(({ violations }) => violations.length > 0).length;
  process.stdout.write(broken === 0 ? '\nEverything held.\n' : `\n${broken} of ${rows.length} did not hold.\n`);
}

function fail(message: string, code: number): number {
  process.stderr.write(`${message}\n`);
  return code;
}
