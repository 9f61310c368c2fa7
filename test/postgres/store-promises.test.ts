// See store.test.ts.
import { promisesContract } from '../store-contract/suite.ts';
import { kind as postgres } from './kind.ts';

promisesContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
