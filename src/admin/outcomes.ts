// How the tasks of an event ended or stand, in a few words, worst first. The page and `npx kit events` show them.
import type { ListedEvent } from '../store/read.ts';
import type { ShownState } from '../store/work.ts';

const WORST_FIRST: ShownState[] = ['dead', 'ready', 'held', 'running', 'skipped', 'done'];

/** One entry for each state, for example `dead: notify` and `3 done`. Empty: the event has no task. */
export function outcomesOf({ outcomes }: Pick<ListedEvent, 'outcomes'>): { state: ShownState; words: string }[] {
  return WORST_FIRST.flatMap((state) => {
    const handlers = outcomes.flatMap((one) => (one.state === state ? [one.handler] : []));
    if (handlers.length === 0) return [];
    const isAlone = handlers.length === 1;
    const words =
      state === 'dead' && isAlone ? `dead: ${handlers[0]}` : isAlone ? state : `${handlers.length} ${state}`;
    return [{ state, words }];
  });
}
