// When a process that runs handlers has ended, its tasks are retried or given up, and the crash is noted for the alarm.
import { afterCrash } from '../base/retry-policy.ts';
import { iso } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Crash } from '../store/keep.ts';
import type { GivenBack } from '../store/processes.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { Store } from '../store/store.ts';
import type { Child } from './child.ts';
import { howOf, type Exit } from './exit.ts';

const KEPT = 20;
/** Maximum number of tasks of one crash that the list of crashes keeps. */
const TOGETHER = 5;
/** Maximum number of tasks in one log line. */
const NAMED = 20;

export interface Ended {
  role: 'run' | 'run-solo';
  exit: Exit;
  /** The process was not stopped, and was not meant to end by itself. */
  unexpected: boolean;
}

/** `runs`: all processes that run handlers. They know the retry policies. If one is at work, its claims stay valid. */
export async function giveTasksBack(
  { role, exit, unexpected }: Ended,
  runs: Child[],
  { store, log }: { store: Store; log: Logger },
): Promise<void> {
  const how = howOf(exit);
  const alive = runs.flatMap((run) => run.boot() ?? []);
  const policies = new Map(runs.flatMap((run) => run.handlers()).map((handler) => [handler.name, handler]));
  const after = afterCrash(policies);
  const tasks = await retryWhileBusy(() => store.processes.giveBack(alive, store.now(), { how, after }));
  if (tasks.length > 0) log.error({ role, how, ...fieldsOf(tasks) }, messageOf(tasks));
  if (tasks.length === 0 && !unexpected) return;
  const crashes = addCrash(await retryWhileBusy(() => store.state.get('crashes')), tasks, how, store.now());
  await retryWhileBusy(() => store.state.note({ run_crashes: 1 }, { crashes: JSON.stringify(crashes) }));
}

/** For one task, the same fields as in every log line about an attempt. For several, a list of the tasks. */
function fieldsOf(tasks: GivenBack[]): object {
  const [one] = tasks;
  if (one && tasks.length === 1) return { handler: one.handler, key: one.key, attempt: one.attempt };
  return { tasks: tasks.length, atWork: tasks.slice(0, NAMED).map(({ handler, key }) => `${handler} ${key}`) };
}

function messageOf([one, ...more]: GivenBack[]): string {
  if (more.length > 0) return 'a process died while it ran these tasks; retrying each alone';
  if (one?.dead) return 'the process of this task died too often; it is a dead letter: see npx kit explain';
  return 'the process of this task died; retrying the task alone';
}

/** Returns the list with one more crash, newest first. */
export function addCrash(
  known: Crash[],
  tasks: Pick<GivenBack, 'handler' | 'key' | 'alone'>[],
  exit: string,
  now: number,
): Crash[] {
  const at = iso(now) ?? '';
  const rows = tasks.slice(0, TOGETHER).map(({ handler, key, alone }) => ({ task: { handler, key }, alone }));
  const fresh = (rows.length > 0 ? rows : [{ task: null, alone: false }]).map((row): Crash => {
    const before = known.find((one) => isSame(one, row));
    return { ...row, alone: row.alone || before?.alone === true, exit, count: 1 + (before?.count ?? 0), at };
  });
  return [...fresh, ...known.filter((one) => !fresh.some((row) => isSame(one, row)))].slice(0, KEPT);
}

function isSame(one: Pick<Crash, 'task'>, other: Pick<Crash, 'task'>): boolean {
  return one.task?.handler === other.task?.handler && one.task?.key === other.task?.key;
}
