// See store.test.ts.
import { concurrencyContract } from '../store-contract/suite.ts';
import { kind as postgres } from './kind.ts';

concurrencyContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
