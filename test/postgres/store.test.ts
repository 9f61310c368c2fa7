// The contract of every store, on PostgreSQL. Its parts stand in three files, so that they run at the same time.
import { rolesContract } from '../store-contract/suite.ts';
import { openAt } from './open.ts';

rolesContract('the PostgreSQL store', openAt);
