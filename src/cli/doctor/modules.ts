// The checks that need a module, one line for each module. src/README.md says how to delete a module.
export { clocks, key, replay } from './service.ts';
export { contract } from './contract.ts';
export { alarms, alerting } from './alerting.ts';
export { backups } from './backups.ts';
export { server } from './store-server.ts';
export {};
