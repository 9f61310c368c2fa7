// Alarms about the process that runs handlers, and about the instances that share a store.
import type { Crash } from '../../store/keep.ts';
import { differing, type Instance } from '../../store/processes.ts';
import { recently, type Observation } from './observation.ts';
import { magnitude, type Rules } from './rule.ts';

const CRASHES_FROM = 3;
/** The process is down once it has shown no sign of life for this long. */
const DOWN_MS = 15_000;
/** A crash that was longer than this before the last one may have another cause, so it is left out. */
const CRASHES_MS = 600_000;
/** Instances that are updated one after the other have different handlers meanwhile. */
const UPDATED_MS = 60_000;

export const PROCESSES: Rules<Observation> = {
  run_crashing: {
    gravity: 'critical',
    remedy: 'npx kit explain the event that the alarm names; fix its handler, then npx kit reload.',
    page: '/handlers',
    fires: (seen) => recently(seen, 'run_crashes') >= CRASHES_FROM || seen.runDownMs > DOWN_MS,
    level: (seen) => magnitude(recently(seen, 'run_crashes')),
    words: (seen) =>
      recently(seen, 'run_crashes') >= CRASHES_FROM
        ? `the process that runs handlers died ${recently(seen, 'run_crashes')} times in the last minutes. ${crashWords(seen.crashes)}`
        : 'the process that runs handlers does not run: see the log for why it cannot start',
  },
  instance_lost: {
    gravity: 'warning',
    remedy: 'npx kit instances names it: look at its machine and its log, and start an instance again.',
    fires: ({ status }) => lost(status.instances).length > 0,
    level: ({ status }) => lost(status.instances).length,
    words: ({ status }) =>
      `${lost(status.instances)
        .map(({ name, lostAt }) => `the instance ${name} gives no sign of life since ${lostAt}`)
        .join(
          '; ',
        )}. The others go on. Look at its machine and its log, and start it again: the alarm ends when an instance has joined, or after a day`,
  },
  handlers_differ: {
    gravity: 'warning',
    remedy: 'Start the same release, with the same HANDLERS_DIR, on every instance; npx kit instances lists them.',
    page: '/handlers',
    fires: ({ differMs }) => differMs > UPDATED_MS,
    level: ({ status }) => differing(status.instances).length,
    words: ({ status }) =>
      `${differing(status.instances)
        .map(({ handler, lack }) => `handler ${handler} is not loaded by ${lack.join(', ')}`)
        .join(
          '; ',
        )}. While such an instance leads, events wait for that handler; one that no leader has had yet has not begun, and npx kit rerun makes what it lacks. Start the same handlers everywhere`,
  },
};

/** When another instance has replaced it, the store shows it no longer. */
function lost(instances: Instance[]): Instance[] {
  return instances.filter(({ lostAt }) => lostAt !== null);
}

/** Names the task that ended the process. A task that ran alone is surely the cause; of several tasks, each may be. */
function crashWords(crashes: Crash[]): string {
  const [last] = crashes;
  const recent = crashes.filter(({ at }) => Math.abs(Date.parse(last?.at ?? at) - Date.parse(at)) <= CRASHES_MS);
  const sure = recent.find(({ alone, task }) => alone && task !== null);
  const found = sure ?? last;
  if (!found) return 'See why in the log (run died)';
  if (!found.task) return `The last ended with ${found.exit}, while no handler was at work: see the log (run died)`;
  const { handler, key } = found.task;
  const words = sure
    ? `Handler ${handler} on event ${key} ended it ${found.count === 1 ? 'once' : `${found.count} times`}, last with ${found.exit}`
    : `Handler ${handler} on event ${key} was among the tasks at work when it ended with ${found.exit}`;
  return `${words}: npx kit explain ${key} shows its attempts, the log (run died) the rest`;
}
