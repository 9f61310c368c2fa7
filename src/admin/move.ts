// Moves the tasks of a renamed handler to its new name.
import type { HandlerFigures } from '../store/read.ts';
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
 * If `to` is not loaded, only the steps of its `setup` move, because they are needed to load it. `paused`: `to` is, as
 * `from` was. Throws AdminError.
 */
export async function moveTasks(
  store: Pick<Store, 'admin' | 'read'>,
  { from, to }: { from: string; to: string },
  clock: Clock,
  onStep?: (done: number, of: number) => void,
): Promise<{ moved: number; steps: number; paused: boolean }> {
  const handlers = await store.read.handlers(clock.now());
  const old = handlers.find(({ name }) => name === from);
  const isLoaded = handlers.some(({ name, loaded }) => loaded && name === to);
  const steps = isLoaded ? 0 : await store.admin.giveSteps(from, to);
  const paused = Boolean(old?.paused);
  // A rename must not end a pause. It keeps its time, because failed tasks hold their lane for as long as it lasted.
  const own = old?.paused?.all ? null : old?.paused;
  if (own && (steps > 0 || isKnown(handlers, to))) await store.admin.pause(to, own.reason, Date.parse(own.since));
  if (steps > 0) return { moved: 0, steps, paused };
  requireKnown(handlers, [from, to]);
  const give = (ids: number[]): Promise<number> => store.admin.giveTo(ids, to, clock.now());
  const moved = await changeInSteps(await store.admin.matching({ handler: from }, clock.now()), give, onStep);
  for (let after: number | null = 0; after !== null;)
    after = await store.admin.giveLanes(from, to, after, LANES, clock.now());
  if (own && !old?.loaded) await store.admin.resume(from, clock.now());
  return { moved, steps, paused };
}

const isKnown = (handlers: HandlerFigures[], wanted: string): boolean => handlers.some(({ name }) => name === wanted);

function requireKnown(handlers: HandlerFigures[], wanted: string[]): void {
  const known = handlers.map(({ name }) => name).join(', ') || 'none';
  for (const name of wanted)
    if (!isKnown(handlers, name))
      throw new AdminError('missing', `no handler was ever named ${name}; known are: ${known}`);
}
