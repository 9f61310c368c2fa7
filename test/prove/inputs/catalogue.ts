// Runs the tests of the catalogue of bad inputs. Each number, I1 to I80, is in the title of at least one unit test, and
// gets a row of the report. A number without a test is a violation too.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Row } from '../report.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NUMBERS = Array.from({ length: 80 }, (_, n) => `I${n + 1}`);
const NAMED = String.raw`\bI\d{1,2}\b`;

const results = z.object({
  testResults: z.array(
    z.object({
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()).nullish() }),
      ),
    }),
  ),
});
type Result = z.infer<typeof results>['testResults'][number]['assertionResults'][number];

export async function catalogue(progress: (line: string) => void): Promise<Row[]> {
  progress('the catalogue, I1 to I80, by its tests');
  const told = await runTests();
  return NUMBERS.map((number) => {
    const its = told.filter(({ fullName }) => new RegExp(`\\b${number}\\b`).test(fullName));
    const failed = its.filter(({ status }) => status !== 'passed');
    const violations = failed.map(
      ({ fullName, failureMessages }) => `${fullName}: ${firstLine(failureMessages?.[0] ?? 'did not run')}`,
    );
    if (its.length === 0) violations.push(`${number}: no test is named after it`);
    return {
      what: [number, ...namesOf(its)].join(': '),
      seen: `${its.length - failed.length} of ${its.length} passed`,
      violations,
    };
  });
}

/** The title of the first test, and the number of the others. */
function namesOf([first, ...more]: Result[]): string[] {
  if (!first) return [];
  const name = first.fullName
    .replaceAll(new RegExp(`${NAMED}[:,] `, 'g'), '')
    .replace(new RegExp(` \\(${NAMED}\\)`), '');
  return [more.length > 0 ? `${name}; and ${more.length} more` : name];
}

async function runTests(): Promise<Result[]> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-inputs-'));
  try {
    const file = join(folder, 'results.json');
    // `runner` is set because the default loader writes into the clone, where this user may not be allowed to write.
    const args = [
      'run',
      '--configLoader',
      'runner',
      '--project',
      'unit',
      '-t',
      NAMED,
      '--reporter=json',
      `--outputFile=${file}`,
      ...testFiles(),
    ];
    const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', ...args], {
      cwd: ROOT,
      env: environment(),
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await once(child, 'exit');
    const { testResults } = results.parse(JSON.parse(readFileSync(file, 'utf8')));
    // Tests that the pattern skipped are left out.
    return testResults.flatMap(({ assertionResults }) =>
      assertionResults.filter(({ status }) => status === 'passed' || status === 'failed'),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The unit test files that contain a number of the catalogue. */
function testFiles(): string[] {
  return readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts') && !/^(system|flow)\b/.test(path))
    .map((path) => join('test', path))
    .filter((path) => new RegExp(NAMED).test(readFileSync(join(ROOT, path), 'utf8')));
}

/** An environment without Vitest's own variables, because the campaign may itself run in a test. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV)/.test(name)));
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
