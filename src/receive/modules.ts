// The modules of the receive process, one line each. src/README.md says how to delete one.
export { storeAlarms } from '../alarms/store-alarms.ts';
export { opsPort } from '../ops/module.ts';
export {};
