// How errors become text for people: each with the first line of the user's own file.
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { behind, describe, loggable, noteCaller } from '../../src/base/errors.ts';

const FILE = resolve('src/handlers/log.ts');

function withStack(...places: string[]): Error {
  const error = new Error('no');
  error.stack = ['Error: no', ...places.map((place) => `    at async f (file://${resolve(place)}:7:1)`)].join('\n');
  return error;
}

test('the place is the first line that is neither of the kit nor of a library', () => {
  const error = withStack('node_modules/zod/index.js', 'src/run/attempt.ts', 'src/handlers/log.ts', 'test/types.ts');
  expect(describe(error).at).toBe(`${FILE}:7`);
  expect(describe(withStack('src/run/attempt.ts', 'src/events.ts')).at).toBe(`${resolve('src/events.ts')}:7`);
});

test("an error without a line of the handler has the line of its call, else the handler's file, else the kit's line", () => {
  const error = withStack('src/run/attempt.ts');
  expect(describe(error).at).toBe(`${resolve('src/run/attempt.ts')}:7`);
  expect(describe(error, FILE).at).toBe(FILE);
  noteCaller(error, withStack('src/store/work.ts', 'src/handlers/log.ts').stack);
  noteCaller(error, withStack('test/types.ts').stack);
  expect(describe(error, FILE).at).toBe(`${FILE}:7`);
});

test('a thrown value that is no error has the file, and its message if it has one', () => {
  expect(describe('a string', FILE)).toEqual({ name: 'string', message: 'a string', at: FILE });
  expect(describe({ message: 'of an SDK' }, FILE).message).toBe('of an SDK');
  expect(describe(undefined, FILE)).toMatchObject({ name: 'undefined', message: 'undefined' });
  expect(loggable({ message: 'of a stranger' }, FILE)).toEqual({ error: 'object', at: FILE });
});

test('people see paths inside the project relative to it, and nothing of the kit', () => {
  expect(behind(`${FILE}:7`)).toBe(' (src/handlers/log.ts:7)');
  expect(behind(join('/elsewhere', 'a.ts:1'))).toBe(' (/elsewhere/a.ts:1)');
  expect(behind(`${resolve('src/run/attempt.ts')}:7`)).toBe('');
});
