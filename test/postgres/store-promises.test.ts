// See store.test.ts.
import { promisesContract } from '../store-contract/suite.ts';
import { openAt } from './open.ts';

promisesContract('the PostgreSQL store', openAt);
