// The lines that people read in `npm run dev`.
import { expect, test } from 'vitest';
import { HEAD, readable, type LineOptions } from '../../../src/tools/dev/lines.ts';

const plain: LineOptions = { live: false, colour: false, folder: '/clone' };
const handled = {
  level: 20,
  time: '2026-01-02T03:04:05.678Z',
  process: 'run',
  key: 'c:17',
  type: 'MessageReceived',
  origin: 'webhook',
  handler: 'greet',
  lane: 3,
  attempt: 1,
  late: false,
  verdict: 'done',
  ms: 12,
  msg: 'handled',
};
const read = (line: object, options = plain): string[] => readable(JSON.stringify(line), options);

test('an attempt is one line, aligned below the head', () => {
  const [line = '', ...more] = read(handled);
  expect(more).toEqual([]);
  expect(line).toMatch(/^03:04:05Z +c:17 +MessageReceived +#3 +greet +done +12$/);
  for (const [title, cell] of [
    ['type', 'Mess'],
    ['lane', '#3'],
    ['handler', 'greet'],
    ['verdict', 'done'],
  ] as const) {
    expect(line.indexOf(cell)).toBe(HEAD.indexOf(title));
  }
});

test('a late event and an event from replay are marked', () => {
  expect(read({ ...handled, late: true, origin: 'replay' })[0]).toMatch(/late recovered$/);
});

test('a failed attempt shows its key, its error and its line once; with real events only the name of the error', () => {
  const failed = {
    ...handled,
    verdict: 'retry',
    error: 'TypeError',
    why: 'TypeError: no Ana (src/handlers/greet.ts:7)',
    at: '/clone/src/handlers/greet.ts:7',
  };
  expect(read(failed)[1]?.trim()).toBe('c:17  TypeError: no Ana (src/handlers/greet.ts:7)');
  expect(read(failed, { ...plain, live: true })[1]?.trim()).toBe('c:17  TypeError  src/handlers/greet.ts:7');
});

test('an error message cannot control the terminal', () => {
  expect(
    read({ ...handled, verdict: 'dead', error: 'Error', why: '\u001b[2Jgone\r\n\u202eaway\u009b1m' })[1]?.trim(),
  ).toBe('c:17  gone away');
});

test('a broken file is named with its line, and the output says which handlers keep running', () => {
  const faults = ['/clone/src/handlers/greet.ts:3: SyntaxError: Unexpected token'];
  expect(
    read({
      process: 'receive',
      level: 50,
      faults,
      msg: 'SIGHUP: secrets reloaded, but handlers have faults; the old handlers keep running',
    }),
  ).toEqual(['broken     src/handlers/greet.ts:3: SyntaxError: Unexpected token (the old handlers keep running)']);
});

test('a reload names the loaded handlers', () => {
  expect(read({ process: 'receive', level: 30, handlers: ['a', 'b'], ms: 400, msg: 'SIGHUP: …' })).toEqual([
    'reloaded   a, b in 400 ms',
  ]);
});

test('the start names no reload', () => {
  expect(read({ process: 'receive', level: 30, handlers: ['a'], ms: 400, msg: 'ready for deliveries' })).toEqual([]);
});

test('a fault of a handler after its attempt has key, error and place in a second line', () => {
  const fault = {
    level: 50,
    process: 'run',
    handler: 'greet',
    key: 'c:17',
    code: 1,
    at: '/clone/src/handlers/greet.ts:7',
  };
  expect(read({ ...fault, msg: 'a handler ends this process' }).map((line) => line.trim())).toEqual([
    'greet: a handler ends this process',
    'c:17  src/handlers/greet.ts:7',
  ]);
});

test("a handler's own lines are shown; the kit's routine lines are not", () => {
  const said = { level: 30, time: '', process: 'run', handler: 'greet', key: 'c:17', code: 1, msg: 'hello' };
  expect(read(said).map((line) => line.trim())).toEqual(['greet: hello {"code":1}']);
  expect(readable('printed', plain)).toEqual(['printed']);
  expect(readable('{"printed":1}', plain)).toEqual(['{"printed":1}']);
  expect(read({ level: 30, process: 'keep', msg: 'as always' })).toEqual([]);
  expect(read({ level: 40, process: 'keep', time: '', n: 1, msg: 'not as always' })).toEqual([
    'the kit    not as always {"n":1}',
  ]);
});

test('colours appear only if they are asked for', () => {
  expect(read(handled, { ...plain, colour: true })[0]).toContain('\u001b[32mdone');
  expect(read(handled)[0]).not.toContain('\u001b');
});
