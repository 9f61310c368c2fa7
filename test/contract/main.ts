// `npm run -s contract`: runs the tests of the contract's statements, the kit's in test/contract and the simulated
// service's in test/tools/simulator, and shows which statements hold.
import '../../src/base/node/checked.js';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describe, EXIT } from '../../src/base/errors.ts';
import { count, fail, print, printJson } from '../../src/cli/lib/print.ts';
import { printTable } from '../../src/cli/lib/table.ts';
import { statementsOf, tableOf, type Report } from './table.ts';

const USAGE = `Usage: npm run -s contract [-- --json]
Exit codes: 0 every statement holds, 1 one does not, 2 wrong argument.`;
const ROOT = join(import.meta.dirname, '..', '..');
const FOLDERS = ['test/contract/', 'test/tools/simulator/'];

process.exitCode = await main();

async function main(): Promise<number> {
  let json: boolean;
  try {
    const { values } = parseArgs({ options: { json: { type: 'boolean', default: false }, help: { type: 'boolean' } } });
    if (values.help) {
      print(USAGE);
      return EXIT.done;
    }
    ({ json } = values);
  } catch (error) {
    return fail(`${describe(error).message}\n\n${USAGE}`, EXIT.usage);
  }
  const { report, code } = await runTests();
  const statements = statementsOf(report, ROOT);
  const holding = statements.filter(({ holds }) => holds).length;
  if (json) printJson(statements);
  else {
    const { head, rows } = tableOf(statements);
    printTable(head, rows);
    print(`\n${count(statements.length, 'statement')}: ${holding} hold, ${statements.length - holding} do not`);
  }
  if (code !== 0) return fail(`a test failed: npx vitest run --project unit ${FOLDERS.join(' ')}`);
  return holding === statements.length ? EXIT.done : EXIT.failed;
}

/** `code`: 0 if each test had the expected outcome. */
async function runTests(): Promise<{ report: Report; code: number | null }> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-contract-'));
  try {
    const file = join(folder, 'report.json');
    const options = ['--project', 'unit', '--reporter', 'json', '--outputFile', file];
    const args = ['node_modules/vitest/vitest.mjs', 'run', ...options, ...FOLDERS];
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
    const [code] = (await once(child, 'exit')) as [number | null];
    return { report: JSON.parse(readFileSync(file, 'utf8')) as Report, code };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
