// How processes that run handlers have died lately, so that people are told which handler ends them, on which event.
import { iso } from '../base/clock.ts';
import type { Crash } from '../store/keep.ts';
import type { GivenBack } from '../store/processes.ts';

const KEPT = 20;
/** Of many tasks that were at work together, so few are worth a row. */
const TOGETHER = 5;

/** The list with one more, newest first. */
export function addCrash(
  known: Crash[],
  atWork: Pick<GivenBack, 'handler' | 'key' | 'alone'>[],
  exit: string,
  now: number,
): Crash[] {
  const at = iso(now) ?? '';
  const rows = atWork.slice(0, TOGETHER).map(({ handler, key, alone }) => ({ task: { handler, key }, alone }));
  const fresh = (rows.length > 0 ? rows : [{ task: null, alone: false }]).map((row): Crash => {
    const before = known.find((one) => isSame(one, row));
    return { ...row, alone: row.alone || before?.alone === true, exit, count: 1 + (before?.count ?? 0), at };
  });
  return [...fresh, ...known.filter((one) => !fresh.some((row) => isSame(one, row)))].slice(0, KEPT);
}

function isSame(one: Pick<Crash, 'task'>, other: Pick<Crash, 'task'>): boolean {
  return one.task?.handler === other.task?.handler && one.task?.key === other.task?.key;
}
