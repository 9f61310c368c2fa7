// The modules of the run process, one line each. src/README.md says how to delete one.
export { serviceOf } from '../service/start.ts';
export {};
