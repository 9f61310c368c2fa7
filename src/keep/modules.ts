// The modules of the keep process, one line each. src/README.md says how to delete one.
export { alarms } from '../alarms/module.ts';
export { backups } from '../backups/module.ts';
export { ops } from '../ops/module.ts';
export { reconcile } from '../reconcile/module.ts';
export {};
