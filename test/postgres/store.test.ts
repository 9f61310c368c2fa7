// The contract of every store, on PostgreSQL. Its storms are in a file of their own, so that two processes share the tests.
import { calmContract } from '../store-contract/suite.ts';
import { postgres } from '../stores.ts';

calmContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
