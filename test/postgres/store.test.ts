// The contract of every store, on PostgreSQL. Its parts stand in three files, so that they run at the same time.
import { rolesContract } from '../store-contract/suite.ts';
import { kind as postgres } from './kind.ts';

rolesContract('the PostgreSQL store', (path) => postgres.open(path, { owner: true }));
