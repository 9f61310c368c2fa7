// Moves the tasks of a renamed handler to its new name.
import type { Store } from '../store/store.ts';
import type { Clock } from '../base/clock.ts';
import { AdminError } from './error.ts';
import { changeInSteps } from './in-steps.ts';

/** The progress of this many lanes is copied in one transaction. */
const LANES = 500;

/** Says how to run or to discard the tasks of a handler that is not loaded. */
export function unloadedWords(handler: string): string {
  return `They run once it is loaded again (npx kit reload). npx kit tasks move --from ${handler} --to OTHER gives them to another handler; npx kit discard --handler ${handler} --reason TEXT gives them up.`;
}

/**
 * Moves waiting, dead and skipped tasks to the handler `to`, and copies how far the lanes of `from` have finished.
 * If `to` is not loaded, only the steps of its `setup` move, because they are needed to load it. Throws AdminError.
 */
export async function moveTasks(
  store: Pick<Store, 'admin' | 'read'>,
  { from, to }: { from: string; to: string },
  clock: Clock,
  onStep?: (done: number, of: number) => void,
): Promise<{ moved: number; steps: number }> {
  const handlers = await store.read.handlers(clock.now());
  const known = handlers.map(({ name }) => name);
  const isLoaded = handlers.some(({ name, loaded }) => loaded && name === to);
  const steps = isLoaded ? 0 : await store.admin.giveSteps(from, to);
  if (steps > 0) return { moved: 0, steps };
  for (const name of [from, to])
    if (!known.includes(name))
      throw new AdminError('missing', `no handler was ever named ${name}; known are: ${known.join(', ') || 'none'}`);
  const pause = handlers.find(({ name }) => name === from)?.paused;
  // A rename must not end a pause.
  if (pause && !pause.all) await store.admin.pause(to, pause.reason, clock.now());
  const give = (ids: number[]): Promise<number> => store.admin.giveTo(ids, to, clock.now());
  const moved = await changeInSteps(await store.admin.matching({ handler: from }, clock.now()), give, onStep);
  for (let after: number | null = 0; after !== null;)
    after = await store.admin.giveLanes(from, to, after, LANES, clock.now());
  return { moved, steps };
}
