// Plants faults in a copy of the kit, one at a time, and runs for each the test that must see it.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS } from './planted.ts';
import type { Options, Row } from './report.ts';

export async function mutate({ progress }: Options): Promise<Row[]> {
  const root = join(import.meta.dirname, '../..');
  const copy = join(root, 'data', `mutate-${process.pid}`);
  mkdirSync(copy, { recursive: true });
  const violations: string[] = [];
  try {
    for (const name of ['src', 'templates', 'test', 'package.json', 'vitest.config.ts'])
      cpSync(join(root, name), join(copy, name), { recursive: true, filter: (path) => !path.endsWith('node_modules') });
    const server = 'test/postgres/server/node_modules';
    if (existsSync(join(root, server))) symlinkSync(join(root, server), join(copy, server));
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    // A test that fails anyway would see everything.
    for (const project of ['kit', 'postgres'])
      if (spawnSync('npx', ['vitest', 'run', '--project', project], { cwd: copy }).status !== 0)
        violations.push(`the tests of the project ${project} fail without a fault`);
    for (const { rule, file, from, to, test } of FAULTS) {
      const path = join(copy, file);
      const source = readFileSync(path, 'utf8');
      if (!source.includes(from)) violations.push(`${rule}: its text is no longer in ${file}`);
      writeFileSync(path, source.replace(from, to));
      const project = test.startsWith('postgres/') ? 'postgres' : 'kit';
      const command = ['npx', 'vitest', 'run', '--project', project, `test/${test}.test.ts`];
      const { status } = spawnSync('timeout', ['-k', '1', '180', ...command], {
        cwd: copy,
        env: { ...process.env, SEED: '7', RUNS: '250' },
      });
      writeFileSync(path, source);
      if (status === 0) violations.push(`${rule}: test/${test}.test.ts does not see it`);
      progress(`${status === 0 ? 'NOT SEEN' : 'seen'}  ${rule}`);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  return [{ what: 'planted faults', seen: `${FAULTS.length} faults`, violations }];
}
