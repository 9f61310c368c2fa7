// The storms of the contract of every store, on PostgreSQL.
import { stormContract } from '../store-contract/suite.ts';
import { postgres } from '../stores.ts';

stormContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
