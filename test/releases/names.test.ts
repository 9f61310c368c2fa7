// What a release has named stays, until the next major version: people's scripts, dashboards and handlers use these names.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RELEASES, releases } from './folders.ts';
import { publicNames } from './names.ts';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const majorOf = (name: string): string => name.split('.')[0] ?? '';
const ofThisMajor = releases().filter((release) => majorOf(release) === majorOf(version));

test('a release of this major version is kept', () => {
  expect(ofThisMajor).not.toEqual([]);
});

test.each(ofThisMajor)('every public name of release %s still exists', async (release) => {
  const named = readFileSync(join(RELEASES, release, 'names.txt'), 'utf8')
    .trimEnd()
    .split('\n');
  expect(named.length).toBeGreaterThan(500);
  const present = new Set(await publicNames(join(RELEASES, release, 'events.db')));
  const hint = 'if you have deleted a part of the kit in your own clone, delete this test too';
  expect(
    named.filter((name) => !present.has(name)),
    hint,
  ).toEqual([]);
});
