import { expect, test } from 'vitest';
import { compareVersions } from '../../../src/tools/init/history.ts';

test('versions are in the order of semver', () => {
  const versions = ['1.0.0', '1.1.0-alpha', '1.1.0-alpha.1', '1.1.0-rc.2', '1.1.0-rc.10', '1.1.0', '1.9.9', '1.10.0-0'];
  expect(versions.toReversed().toSorted(compareVersions)).toEqual(versions);
  expect(compareVersions('1.1.0+build.2', '1.1.0+build.1')).toBe(0);
});
