// The contract of every store, on PostgreSQL.
import { storeContract } from '../store-contract/suite.ts';
import { postgres } from '../stores.ts';

storeContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
