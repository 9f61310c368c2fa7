// See store.test.ts.
import { concurrencyContract } from '../store-contract/suite.ts';
import { openAt } from './open.ts';

concurrencyContract('the PostgreSQL store', openAt);
