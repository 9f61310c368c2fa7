// The conditions on test files that vitest.config.ts relies on.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter((file) =>
  /^(?!(system|flow|handlers|postgres)\/).*(?<!\.system)\.test\.ts$/.test(file),
);

test('no unit test mocks a module, because other tests in the same process would get the mock', () => {
  expect(files.length).toBeGreaterThan(50);
  const mocking = files.filter((file) =>
    /\bvi\.(do)?mock\(/i.test(readFileSync(join(import.meta.dirname, file), 'utf8')),
  );
  expect(mocking).toEqual([]);
});
