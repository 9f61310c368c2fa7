// The small repository that `npm run init` makes of this tree: it passes its own checks and tests, as its README says.
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKitRepository, sh } from './repositories.ts';

interface Lock {
  packages: Record<string, { version: string }>;
}

describe.each([[[]], [['--tools']]])('npm run init with %j', (options) => {
  let root: string;
  let small: string;

  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'kit-small-'));
    small = join(root, 'my-receiver');
    createKitRepository(join(root, 'kit'), null);
    sh(join(root, 'kit'), ['npm run -s init ../my-receiver --', ...options].join(' '));
    symlinkSync(resolve('node_modules'), join(small, 'node_modules'));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test('types, lint, format and dead code hold', () => {
    expect(sh(small, 'npm run -s check')).toContain('✓ every part holds');
  });

  test('its tests pass, with the receiver and a new handler among them', () => {
    expect(sh(small, 'npx kit new notify my-notify').includes('npm run dev')).toBe(options.length > 0);
    const output = sh(small, 'npm test', { NO_COLOR: '1' });
    expect(output).toContain('test/receiver.system.test.ts');
    expect(output).toContain('test/handlers/my-notify.test.ts');
    expect(output).toMatch(/Test Files +\d+ passed \(\d+\)/);
  });

  test('it debugs the open test, and npm run dev only with tools', () => {
    const { configurations } = JSON.parse(readFileSync(join(small, '.vscode/launch.json'), 'utf8')) as {
      configurations: { name: string }[];
    };
    const names = configurations.map(({ name }) => name);
    expect(names).toContain('the open test');
    expect(names.includes('npm run dev')).toBe(options.length > 0);
  });

  test('its documents link only to what it has', () => {
    const documents = globSync('**/*.md', { cwd: small, exclude: ['node_modules'] });
    expect(documents).toContain('src/processes/README.md');
    const dead = documents.flatMap((file) => {
      const links = [...readFileSync(join(small, file), 'utf8').matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)];
      const paths = links.map(([, path = '']) => path).filter((path) => !path.includes('://'));
      return paths.filter((path) => !existsSync(join(small, dirname(file), path))).map((path) => `${file}: ${path}`);
    });
    expect(dead).toEqual([]);
  });

  test('its lock file has the packages that npm would lock', () => {
    const packages = (): [string, string][] => {
      const lock = JSON.parse(readFileSync(join(small, 'package-lock.json'), 'utf8')) as Lock;
      return Object.entries(lock.packages).map(([name, { version }]) => [name, version]);
    };
    const before = packages();
    expect(before.length).toBeGreaterThan(100);
    sh(small, 'npm install', { npm_config_offline: 'true', npm_config_package_lock_only: 'true' });
    expect(packages()).toEqual(before);
  });
});

test('its workflow uses actions in the versions of the workflow of the kit', () => {
  const usesIn = (path: string): string[] => readFileSync(path, 'utf8').match(/uses: .*/g) ?? [];
  const own = usesIn('src/tools/init/files/.github/workflows/ci.yml');
  expect(own.length).toBeGreaterThan(1);
  expect(usesIn('.github/workflows/ci.yml')).toEqual(expect.arrayContaining(own));
});

test('its Dependabot updates the images of every compose file', () => {
  const settings = readFileSync('src/tools/init/files/.github/dependabot.yml', 'utf8');
  const [, directories = ''] = /docker-compose\n +directories: \[(.*)\]/.exec(settings) ?? [];
  const files = globSync(['compose.yaml', 'src/**/compose.yaml']).map((file) => join('/', dirname(file)));
  expect(directories.split(', ').toSorted()).toEqual(files.toSorted());
});
