// Imports run one way (src/README.md), without exceptions. The test reads the import statements of src, so that a
// wrong import fails here instead of in a review.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';

/** The folders of src in layers, lowest first. A file may import from its own folder and from every lower layer. */
const FLOORS = [
  ['base'],
  ['events.ts'],
  ['wire'],
  ['config.ts'],
  ['store'],
  ['service'],
  ['kit.ts'],
  ['processes'],
  ['receive', 'run', 'keep'],
  ['reconcile', 'alarms', 'admin', 'backups'],
  ['ops', 'cli'],
  ['handlers', 'entries', 'tools'],
  ['testing.ts'],
];

/** Entries put a process together. They may import everything except the tools. */
const ENTRIES = new Set([
  'main.ts',
  'run/main.ts',
  'keep/main.ts',
  'receive/modules.ts',
  'keep/modules.ts',
  'run/modules.ts',
  'cli/modules.ts',
]);

/**
 * The simulator must not share the receiver's mistakes. From `wire` it may import only shapes, names and its own
 * signature code.
 */
const SIMULATOR_MAY = ['base', 'wire/cursor.ts', 'wire/event.ts', 'wire/headers.ts', 'wire/sign.ts', 'tools/random.ts'];

interface Import {
  from: string;
  to: string;
}

const SRC = join(import.meta.dirname, '..', 'src');

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => /\.[jt]s$/.test(path));

const imports: Import[] = files.flatMap((from) => {
  const source = readFileSync(join(SRC, from), 'utf8');
  const statements = [
    ...source.matchAll(/^\s*(?:import|export)\s[^'";]*?from\s*['"]([^'"]+)['"]/gm),
    ...source.matchAll(/^\s*import\s+['"]([^'"]+)['"]/gm),
    ...source.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g),
  ];
  return statements.flatMap(([, path = '']) => {
    if (path !== '#kit' && !path.startsWith('.')) return [];
    return [{ from, to: path === '#kit' ? 'kit.ts' : normalize(join(dirname(from), path)).replaceAll('\\', '/') }];
  });
});

function roomOf(file: string): string {
  return ENTRIES.has(file) ? 'entries' : (file.split('/')[0] ?? '');
}

const isSimulator = (file: string): boolean => file.startsWith('tools/simulator/');

function floorOf(file: string): number {
  return FLOORS.findIndex((rooms) => rooms.includes(roomOf(file)));
}

function breaks({ from, to }: Import): boolean {
  if (isSimulator(from)) return !isSimulator(to) && !SIMULATOR_MAY.some((may) => may === roomOf(to) || may === to);
  if (roomOf(from) === roomOf(to)) return false;
  return floorOf(to) >= floorOf(from);
}

/** A chain of imports that leads back to its first file. Undefined: there is none. */
function circleFrom(file: string, path: string[] = [], clear = new Set<string>()): string[] | undefined {
  if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
  if (clear.has(file)) return undefined;
  for (const { from, to } of imports) {
    const circle = from === file ? circleFrom(to, [...path, file], clear) : undefined;
    if (circle) return circle;
  }
  clear.add(file);
  return undefined;
}

test('the import statements of src are found', () => {
  expect(imports.length).toBeGreaterThan(100);
  expect(imports).toContainEqual({ from: 'reconcile/page.ts', to: 'wire/event.ts' });
  expect(imports).toContainEqual({ from: 'receive/app.ts', to: 'base/clock.ts' });
});

test('every file is in a known folder, and every import names a file', () => {
  expect(files.filter((file) => floorOf(file) === -1)).toEqual([]);
  expect(imports.filter(({ to }) => !files.includes(to)).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
});

test('imports run one way: from the entries down through the layers', () => {
  expect(imports.filter(breaks).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
});

test('no chain of imports leads back to its first file', () => {
  const clear = new Set<string>();
  expect(files.map((file) => circleFrom(file, [], clear)).find(Boolean)).toBeUndefined();
});

test('at most five files are directly in src', () => {
  expect(files.filter((file) => !file.includes('/')).length).toBeLessThanOrEqual(5);
});

describe('only some folders', () => {
  /** Without your handlers, which may do what they like. */
  const importersOf = (pattern: RegExp) =>
    files
      .filter((file) => !file.startsWith('handlers/') && pattern.test(readFileSync(join(SRC, file), 'utf8')))
      .toSorted();

  test('import SQLite: the store, and the move out of it', () => {
    const allowed = (file: string) => /^store\/(sqlite|postgres\/move)\//.test(file);
    expect(importersOf(/from 'better-sqlite3'/).filter((file) => !allowed(file))).toEqual([]);
  });

  test('know which kinds of stores there are: store/kinds.ts', () => {
    const knowing = imports
      .filter(({ to }) => /^store\/(postgres\/|sqlite\/(kind|open))/.test(to))
      .map(({ from }) => from);
    expect(knowing).toContain('store/kinds.ts');
    const allowed = (file: string) => /^store\/(sqlite|postgres)\//.test(file) || file === 'store/kinds.ts';
    expect(knowing.filter((file) => !allowed(file))).toEqual([]);
  });

  test('create HTTP servers: receive, ops, and tools', () => {
    const allowed = (file: string) =>
      /^(receive|ops|tools\/(simulator|demo|dev\/page))\//.test(file) || file === 'tools/sandbox.ts';
    expect(importersOf(/from '(koa|@koa\/router|koa-body)'|createServer/).filter((file) => !allowed(file))).toEqual([]);
  });

  test('read the time of the machine: only the clock', () => {
    expect(importersOf(/\bDate\.now\(|\bnew Date\(\)/).filter((file) => file !== 'base/clock.ts')).toEqual([]);
  });
});
