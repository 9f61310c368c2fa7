// The address of a store, and what it opens.
import { expect, test } from 'vitest';
import { IN_MEMORY, open } from '../../src/store/open.ts';
import { StoreError } from '../../src/store/store.ts';

test('an address opens the store of its kind', async () => {
  const store = open(IN_MEMORY, { owner: true });
  expect((await store.read.status(0)).events).toBe(0);
  store.close();
});

test('an unknown kind of address is named, without what follows it', () => {
  expect(() => open('mysql://me:secret@host/kit')).toThrow('no kind of store has addresses like mysql:');
});

test('a store that is missing is an error that says what to do', () => {
  expect(() => open('sqlite:/nowhere/events.db')).toThrow(StoreError);
  expect(() => open('sqlite:/nowhere/events.db')).toThrow('start the receiver once');
});
