// Every operation, in the order of the help.
import { discard, pause, reconcile, rerun, resume, retry } from './changing.ts';
import type { Operation } from './define.ts';
import { events, explain, quarantine, tasks } from './reading.ts';
import { handlers, status } from './status.ts';

export const OPERATIONS: Operation[] = [
  status,
  events,
  explain,
  tasks,
  handlers,
  retry,
  discard,
  pause,
  resume,
  rerun,
  reconcile,
  quarantine,
];
