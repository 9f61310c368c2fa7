// The checks that need a module, one line a module. src/README.md says how to delete one.
export { clocks, key, replay } from './service.ts';
export {};
