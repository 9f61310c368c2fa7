// The rules of alarms, if the kit has the module `alarms`. src/README.md says how to delete it.
export { RULES } from '../../alarms/rules/index.ts';
export {};
