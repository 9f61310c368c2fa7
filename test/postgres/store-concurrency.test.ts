// See store.test.ts.
import { concurrencyContract } from '../store-contract/suite.ts';
import { postgres } from '../stores.ts';

concurrencyContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
