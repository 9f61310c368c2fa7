// The kinds of stores, one line each. src/README.md says how to delete PostgreSQL.
export { sqlite } from './sqlite/kind.ts';
export { postgres } from './postgres/kind.ts';
