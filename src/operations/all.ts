// Every operation, in the order of the help.
import { backup, erase } from './care.ts';
import { discard, pause, reconcile, rerun, resume, retry } from './changing.ts';
import type { Operation } from './define.ts';
import { doctor } from './doctor.ts';
import { events, explain, quarantine, tasks } from './reading.ts';
import { handlers, status } from './status.ts';

const DAILY = [status, events, explain, tasks, handlers];
const CHANGES = [retry, discard, pause, resume, rerun, reconcile, quarantine, erase, backup, doctor];

export const OPERATIONS: Operation[] = [...DAILY, ...CHANGES];
