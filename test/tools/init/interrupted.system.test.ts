// `npm run init` that is killed, fails late, or meets another one: it removes nothing of others, and can be run again.
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createPlace, type Place } from './harness.ts';

const ONCE = 'rm "$0"';

const FOLDERS: Record<string, (place: Place) => unknown> = {
  'a missing folder': () => undefined,
  'an empty folder': (place) => mkdirSync(place.team),
  'an empty clone': (place) => place.sh('.', 'git init --quiet --bare there && git clone --quiet there my-receiver'),
};
const STEPS = ['commit-tree', 'merge', 'branch'];
const CASES = Object.keys(FOLDERS).flatMap((folder) => STEPS.map((step) => ({ folder, step })));

function expectComplete(place: Place): void {
  expect(place.sh('my-receiver', 'git status --short && git fsck && git show -s --format=%s')).toBe(
    'webhook-receiver-kit 1.0.0',
  );
}

function leftIn(place: Place): string[] {
  return [...readdirSync(place.root, { recursive: true, encoding: 'utf8' })].filter((path) =>
    path.includes('kit-init-'),
  );
}

test.each(CASES)('a run for $folder that was killed before git $step does not block the next one', (one) => {
  const place = createPlace();
  FOLDERS[one.folder]?.(place);
  place.atGit(one.step, `${ONCE}; kill -KILL $PPID; exit 1`);
  expect(place.init().status).toBe(null);
  expect(place.init()).toMatchObject({ status: 0 });
  expectComplete(place);
});

test.each(['INT', 'TERM'])('SIG%s to a run and its git leaves nothing', (signal) => {
  const place = createPlace();
  place.atGit('merge', `kill -${signal} $PPID; kill -${signal} $$`);
  expect(place.init(join(place.root, 'missing/parents/my-receiver'))).toEqual({
    status: 1,
    out: expect.stringContaining(`git was ended by SIG${signal}`),
  });
  expect(readdirSync(place.root).toSorted()).toEqual(['bin', 'gitconfig', 'kit', 'tmp']);
  expect(leftIn(place)).toEqual([]);
});

describe('two runs at once', () => {
  test('the later one fails if the earlier one has made the folder, and leaves it alone', () => {
    const place = createPlace();
    place.atGit('merge', `'${process.execPath}' '${place.kit}/src/tools/init/main.ts' '${place.team}' >&2`);
    const { status, out } = place.init();
    expect(status).toBe(1);
    expect(out).toContain(`${place.team} was made by another program meanwhile, and is left as it is: run this again`);
    expectComplete(place);
    expect(leftIn(place)).toEqual([]);
    expect(place.init().out).toContain('up to date');
  });

  test('the one that fails leaves the folder of its neighbour', () => {
    const place = createPlace();
    place.atGit('merge', 'mkdir -p "$TMPDIR/../shared/neighbour"; exit 1');
    expect(place.init(join(place.root, 'shared/my-receiver')).status).toBe(1);
    expect(readdirSync(join(place.root, 'shared'))).toEqual(['neighbour']);
  });

  test('in an empty folder, the one that fails leaves the repository of the other', () => {
    const place = createPlace();
    mkdirSync(place.team);
    const other = `'${process.execPath}' '${place.kit}/src/tools/init/main.ts' '${place.team}' >&2`;
    place.atGit('commit-tree', `${other}; exit 1`);
    expect(place.init().status).toBe(1);
    expectComplete(place);
  });
});
