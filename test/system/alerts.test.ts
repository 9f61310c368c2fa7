// Runs the alert rules with Prometheus' own promtool (Debian: the package prometheus).
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const promtool = (...args: string[]) => spawnSync('promtool', args, { encoding: 'utf8' });
const missing = promtool('--version').error !== undefined;
if (missing) console.warn('promtool is not installed: the alert rules are not run');

test.skipIf(missing).each([
  ['check', 'src/ops/alerts.yaml'],
  ['test', 'test/system/alerts.yaml'],
])('promtool %s rules %s', (verb, file) => {
  const { status, stdout, stderr } = promtool(verb, 'rules', file);
  expect(status, stdout + stderr).toBe(0);
});
