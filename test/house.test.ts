// The house: imports run one way (design, "The house"). Read from the import statements of src, so that a wrong one
// fails here and not in a review. An exception has a reason, and one that is no longer needed fails as well.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';

/** From the ground up: a file may import its own room and every floor below. */
const FLOORS = [
  ['ground'],
  ['wire'],
  ['store'],
  ['intake'],
  ['receive', 'service', 'keep', 'run', 'ops'],
  ['kit'],
  ['handlers'],
  ['main', 'cli', 'demo', 'dev', 'testing'],
];

/** Files that lie in no folder of their own room. */
const ROOM_OF_FILE: Record<string, string> = {
  'config.ts': 'ground',
  'base/clock.ts': 'ground',
  'alarms/board.ts': 'ground',
  'alarms/notifier.ts': 'ground',
  'base/loop.ts': 'ground',
  'base/log.ts': 'ground',
  'base/latency-buckets.ts': 'ground',
  'ops/metrics.ts': 'ground',
  'base/errors.ts': 'ground',
  'events.ts': 'ground',
  'processes/channel.ts': 'ground',
  'base/node/checked.js': 'ground',
  'base/node/runtime.js': 'ground',
  'base/node/launch.js': 'ground',
  'tools/sandbox.ts': 'ground',
  'receive/group-commit.ts': 'intake',
  'kit.ts': 'kit',
  'testing.ts': 'testing',
  'main.ts': 'main',
  'processes/children.ts': 'main',
  'processes/crashes.ts': 'main',
  'alarms/store-alarm.ts': 'main',
  'alarms/store-watch.ts': 'main',
  'processes/ownership.ts': 'main',
  'processes/reload.ts': 'main',
  'processes/child.ts': 'main',
  'processes/supervisor.ts': 'main',
};

/** Rooms on one floor that may import each other nevertheless, as the design says. */
const NEIGHBOURS = ['keep -> service', 'run -> service'];

/** What breaks the rule as it is written, and why it may. */
const EXCEPTIONS: Record<string, string> = {
  'config.ts -> wire/cursor.ts':
    'REPLAY_FROM is a cursor, and there is one way to read one; wire/cursor.ts imports nothing',
  'ops/metrics.ts -> store/events-store.ts': 'types alone: the counters that metrics show are those of the store',
  'ops/metrics.ts -> store/watch-store.ts': 'types alone: the figures that metrics show are those of the store',
  'run/assign.ts -> kit.ts': 'types alone: the shape of a handler is what users import as #kit',
  'run/attempt.ts -> kit.ts': 'types alone: the shape of a handler is what users import as #kit',
  'run/load.ts -> kit.ts': 'types alone: the shape of a handler is what users import as #kit',
  'keep/main.ts -> ops/server.ts': 'a process entry: the ops port is served by keep',
};

/** The simulator must not share the receiver's mistakes: of wire, only the shapes of messages; it signs by itself. */
const SIMULATOR_MAY = ['ground', 'wire/replay.ts', 'wire/cursor.ts', 'wire/event.ts'];

interface Import {
  from: string;
  to: string;
  typesOnly: boolean;
}

const SRC = join(import.meta.dirname, '..', 'src');

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => /\.[jt]s$/.test(path));

const imports: Import[] = files.flatMap((from) => {
  const source = readFileSync(join(SRC, from), 'utf8');
  const statements = [
    ...source.matchAll(/^\s*(?:import|export)\s+(type\s+)?([^'";]*?)from\s*['"]([^'"]+)['"]/gm),
    ...source.matchAll(/^\s*import\s+()()['"]([^'"]+)['"]/gm),
    ...source.matchAll(/\bimport\(()()\s*['"]([^'"]+)['"]/g),
  ];
  return statements.flatMap(([, type, names = '', path = '']) => {
    if (path !== '#kit' && !path.startsWith('.')) return [];
    const to = path === '#kit' ? 'kit.ts' : normalize(join(dirname(from), path)).replaceAll('\\', '/');
    const inBraces =
      /\{([^}]*)\}/
        .exec(names)?.[1]
        ?.split(',')
        .filter((name) => name.trim() !== '') ?? [];
    const eachIsType = inBraces.length > 0 && inBraces.every((name) => name.trim().startsWith('type '));
    return [{ from, to, typesOnly: type !== undefined || eachIsType }];
  });
});

function roomOf(file: string): string | undefined {
  const [first = '', ...rest] = file.split('/');
  return rest.length > 0 ? first : ROOM_OF_FILE[first];
}

function floorOf(file: string): number {
  const room = roomOf(file);
  return FLOORS.findIndex((rooms) => rooms.includes(room ?? ''));
}

function breaks({ from, to }: Import): boolean {
  const room = roomOf(from);
  const other = roomOf(to);
  if (room === 'simulator') return other !== 'simulator' && !SIMULATOR_MAY.some((may) => may === other || may === to);
  // Nobody but the demo, dev, the command line, the test kit and what they start knows the double of the service.
  if (other === 'simulator') return floorOf(from) !== FLOORS.length - 1;
  if (room === other || NEIGHBOURS.includes(`${room} -> ${other}`)) return false;
  return floorOf(to) >= floorOf(from);
}

test('the import statements of src are found', () => {
  expect(imports.length).toBeGreaterThan(100);
  expect(imports).toContainEqual({ from: 'reconcile/page.ts', to: 'wire/event.ts', typesOnly: false });
  expect(imports).toContainEqual({ from: 'alarms/alarms.ts', to: 'base/clock.ts', typesOnly: true });
});

test('every file is in a room, and every import names a file', () => {
  const rooms = [...FLOORS.flat(), 'simulator'];
  expect(files.filter((file) => !rooms.includes(roomOf(file) ?? ''))).toEqual([]);
  expect(imports.filter(({ to }) => !files.includes(to)).map(({ from, to }) => `${from} -> ${to}`)).toEqual([]);
});

test('imports run one way: ground, wire, store, intake, the rooms, the entries', () => {
  const wrong = imports.filter(breaks).map(({ from, to }) => `${from} -> ${to}`);
  expect(wrong.filter((one) => !(one in EXCEPTIONS))).toEqual([]);
});

test.each(Object.entries(EXCEPTIONS))('the exception %s is still needed: %s', (exception, reason) => {
  const found = imports.filter((one) => `${one.from} -> ${one.to}` === exception);
  expect(found.filter(breaks).length).toBeGreaterThan(0);
  if (reason.startsWith('types alone')) expect(found.every(({ typesOnly }) => typesOnly)).toBe(true);
});

describe('one room has one duty', () => {
  const importersOf = (pattern: RegExp) =>
    files.filter((file) => pattern.test(readFileSync(join(SRC, file), 'utf8'))).toSorted();

  test('nobody but the store, who locks it, and the demo, which counts for itself, knows SQLite', () => {
    const allowed = (file: string) => /^(store\/sqlite|demo)\//.test(file) || file === 'processes/ownership.ts';
    expect(importersOf(/from 'better-sqlite3'/).filter((file) => !allowed(file))).toEqual([]);
  });

  test('nobody opens the SQLite store but entries of processes, and the test kit in memory', () => {
    const opens = imports.filter(({ to }) => to === 'store/sqlite/open.ts').map(({ from }) => from);
    const entries = [
      'cli/lib/command.ts',
      'tools/demo/receiver.ts',
      'keep/main.ts',
      'processes/ownership.ts',
      'run/main.ts',
      'tools/testing/deliver.ts',
    ];
    expect(opens.filter((file) => !entries.includes(file))).toEqual([]);
  });

  test('nobody but receive and ops knows HTTP servers', () => {
    const allowed = (file: string) => /^(receive|ops|simulator)\//.test(file) || file === 'tools/sandbox.ts';
    expect(importersOf(/from '(koa|@koa\/router|koa-body)'|createServer/).filter((file) => !allowed(file))).toEqual([]);
  });

  test('nobody but the clock asks what time it is', () => {
    expect(importersOf(/\bDate\.now\(|\bnew Date\(\)/).filter((file) => file !== 'base/clock.ts')).toEqual([]);
  });
});
