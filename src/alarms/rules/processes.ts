// Alarms about the process that runs handlers.
import type { Crash } from '../../store/keep.ts';
import { recently, type Observation } from './observation.ts';
import { magnitude, type Rules } from './rule.ts';

const CRASHES_FROM = 3;
/** The process is down once it has shown no sign of life for this long. */
const DOWN_MS = 15_000;
/** A crash that was longer than this before the last one may have another cause, so it is left out. */
const CRASHES_MS = 600_000;

export const PROCESSES: Rules<Observation> = {
  run_crashing: {
    gravity: 'critical',
    remedy: 'Read the alarm in npx kit status: it names the handler and the event; then npx kit explain.',
    fires: (seen) => recently(seen, 'run_crashes') >= CRASHES_FROM || seen.runDownMs > DOWN_MS,
    level: (seen) => magnitude(recently(seen, 'run_crashes')),
    words: (seen) =>
      recently(seen, 'run_crashes') >= CRASHES_FROM
        ? `the process that runs handlers died ${recently(seen, 'run_crashes')} times in the last minutes. ${crashWords(seen.crashes)}`
        : 'the process that runs handlers does not run: see the log for why it cannot start',
  },
};

/** Names the task that ended the process. A task that ran alone is surely the cause; of several tasks, each may be. */
function crashWords(crashes: Crash[]): string {
  const [last] = crashes;
  const lately = crashes.filter(({ at }) => Math.abs(Date.parse(last?.at ?? at) - Date.parse(at)) <= CRASHES_MS);
  const sure = lately.find(({ alone, task }) => alone && task !== null);
  const found = sure ?? last;
  if (!found) return 'See why in the log (run died)';
  if (!found.task) return `The last ended with ${found.exit}, while no handler was at work: see the log (run died)`;
  const { handler, key } = found.task;
  const words = sure
    ? `Handler ${handler} on event ${key} ended it ${found.count === 1 ? 'once' : `${found.count} times`}, last with ${found.exit}`
    : `Handler ${handler} on event ${key} was among the tasks at work when it ended with ${found.exit}`;
  return `${words}: npx kit explain ${key} shows its attempts, the log (run died) the rest`;
}
