// The README shows the two commands that a release must pass, and .env.example has all variables that the README names.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const readme = readFileSync('README.md', 'utf8');

test('the two commands that the README shows first are in .ci/run', () => {
  const [, block = ''] = /^```sh\n(.*?)^```/ms.exec(readme) ?? [];
  const commands = block.match(/\bnpm [^&#\n]*[^&#\n ]/g) ?? [];
  expect(commands).toEqual(['npm ci', 'npm run demo', 'npm ci', 'npm test']);
  const ci = readFileSync('.ci/run', 'utf8');
  for (const command of commands) expect(ci).toContain(`\n${command}`);
});

test('the README clones the release of this version', () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(readme).toContain(`git clone --branch v${version} `);
});

test('the variables that the README names are in .env.example', () => {
  const named = [...readme.matchAll(/`([A-Z][A-Z_]*_[A-Z_]+)\b/g)].map(([, name = '']) => name);
  expect(named.length).toBeGreaterThan(3);
  const example = readFileSync('.env.example', 'utf8');
  expect(named.filter((name) => !new RegExp(`^(# )?${name}=`, 'm').test(example))).toEqual([]);
});
