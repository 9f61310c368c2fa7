// The contract of every store, on PostgreSQL.
import { openPostgres } from '../../src/store/postgres/open.ts';
import { storeContract } from '../store-contract/suite.ts';
import { urlOf } from './server.ts';

storeContract('the PostgreSQL store', (path) => openPostgres(urlOf(path), { owner: true }));
