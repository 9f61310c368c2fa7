// The commands in an alarm find the store of the kit that raised it.
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { kitCommand } from '../../src/alarms/kit-command.ts';
import { evaluate, type Rules } from '../../src/alarms/rules/rule.ts';

const OWN = { storePath: resolve('data/events.db'), PORT: 3000 };

test('E66: a kit whose store .env names, or nothing names, is found by the plain command', () => {
  expect(kitCommand(OWN, {})).toBe('npx kit');
  expect(kitCommand({ ...OWN, storePath: '/b/c.db' }, { DATABASE_URL: 'sqlite:/b/c.db' })).toBe('npx kit');
});

test('E66: the command of a second kit names its store and port, in quotes if it must', () => {
  expect(kitCommand({ storePath: '/b/c.db', PORT: 3100 }, {})).toBe('DATABASE_URL=sqlite:/b/c.db PORT=3100 npx kit');
  expect(kitCommand({ storePath: "/it's/c.db", PORT: 3100 }, {})).toBe(
    `DATABASE_URL='sqlite:/it'\\''s/c.db' PORT=3100 npx kit`,
  );
  expect(kitCommand({ storePath: '/b/c.db', PORT: 3100 }, { DATABASE_URL: 'not an address' })).toContain('/b/c.db');
});

test('E66: the address of a server, which holds a password, is not shown', () => {
  expect(kitCommand({ storePath: null, PORT: 3100 }, {})).toBe('npx kit');
});

test('E66: every command in the text of an alarm becomes the right one, once', () => {
  const rules: Rules<string> = { one: { gravity: 'warning', remedy: '', fires: () => true, words: (seen) => seen } };
  const kit = 'DATABASE_URL=sqlite:/b/$&.db PORT=3100 npx kit';
  const detail = (words: string) => evaluate(rules, words, kit).get('one')?.detail ?? '';
  const said = detail('npx kit explain c:1, then npx kit reload');
  expect(said).toBe(`${kit} explain c:1, then ${kit} reload`);
  expect(detail(said)).toBe(said);
});
