// The store in memory keeps the part of the contract that belongs to its roles.
import { openMemory, type MemoryStore } from '../../../src/tools/testing/memory/store.ts';
import { workingContract } from '../../store-contract/suite.ts';

const stores = new Map<string, MemoryStore>();

/** Another process opens the same store by its path. */
workingContract('a store in memory', (path) => {
  const store = stores.get(path) ?? openMemory();
  stores.set(path, store);
  return store;
});
