// Handlers whose file is broken wait for it, and get the events that they missed when it is back.
import type { FanOutPage, HandlerFiles, NewTask, Turn } from './work.ts';

interface Known {
  file: string | null;
}

/** True if the handler's file is broken, or if it is gone and a broken file is new, which may be the renamed one. */
export function mayBeBroken({ file }: Known, known: Known[], { of, broken }: HandlerFiles): boolean {
  if (broken.length === 0) return false;
  if (file !== null && broken.includes(file)) return true;
  const isNew = (one: string): boolean => !known.some((row) => row.file === one);
  const isGone = file !== null && ![...of.values()].includes(file);
  return isGone && broken.some(isNew);
}

/**
 * The tasks of the page. If the handler could not join after all, the next page brings its tasks. Decided events come in
 * no page.
 */
export function withoutMissed(
  { tasks, decided = [] }: FanOutPage,
  missed: Turn['missed'],
  behind: number | null,
): NewTask[] {
  if (!missed || behind === null) return tasks;
  const kept = new Set(decided);
  return tasks.filter(({ handler, event }) => handler !== missed.handler || kept.has(event));
}
