// See store.test.ts.
import { promisesContract } from '../store-contract/suite.ts';
import { postgres } from '../stores.ts';

promisesContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
