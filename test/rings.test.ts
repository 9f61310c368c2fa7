// Each ring (src/README.md) stays within its size, and the map of the code there names only existing files.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SRC = join(import.meta.dirname, '..', 'src');
const MAP = readFileSync(join(SRC, 'README.md'), 'utf8');
/** Maximum number of lines after formatting. The aims are 2,500, 6,000 and 10,000. */
const LIMITS = { path: 4_780, core: 14_070, modules: 15_195, postgres: 1_630 };

const MODULES =
  /^(service|reconcile|alarms|admin|ops|cli|backups)\/|^store\/(read|shown|admin|alarms|replay)\.ts$|^store\/(sql|sqlite)\/((read|admin|replay)\/|alarms\.ts)/;
const POSTGRES = /^store\/postgres\//;
const OTHERS = /^(tools|handlers)\/|^(testing|events)\.ts$/;

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => /\.[jt]s$/.test(file));
const path = [...MAP.matchAll(/^- \[`[^`]+`\]\(([^)]+)\)/gm)].map(([, file = '']) => file);
const modules = files.filter((file) => MODULES.test(file));
const postgres = files.filter((file) => POSTGRES.test(file));
const core = files.filter((file) => ![MODULES, OTHERS, POSTGRES].some((ring) => ring.test(file)));

function linesOf(names: string[]): number {
  return names.reduce((sum, name) => sum + readFileSync(join(SRC, name), 'utf8').split('\n').length - 1, 0);
}

test('the path is listed, and every file of it belongs to the core', () => {
  expect(path.length).toBeGreaterThan(10);
  expect(path.filter((file) => !core.includes(file))).toEqual([]);
});

test.each(Object.entries({ path, core, modules, postgres }))(
  'the ring %s is no larger than its limit',
  (ring, names) => {
    expect(names.length).toBeGreaterThan(0);
    const hint = 'for code of your own raise LIMITS in this file';
    expect(linesOf(names), hint).toBeLessThanOrEqual(LIMITS[ring as keyof typeof LIMITS]);
  },
);

test('the files that the map names exist', () => {
  const named = [...MAP.matchAll(/`([a-z][\w/-]*(?:\.ts|\/))`/g)].map(([, name = '']) => name);
  expect(named.length).toBeGreaterThan(20);
  const there = (name: string): boolean =>
    [SRC, join(SRC, 'store'), join(SRC, '..')].some((at) => existsSync(join(at, name)));
  expect(named.filter((name) => !there(name))).toEqual([]);
});
