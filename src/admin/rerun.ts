// A rerun gives a handler old events again. This file counts the events before a rerun begins, and cancels reruns.
import type { Store } from '../store/store.ts';
import type { Clock } from '../base/clock.ts';
import type { Point, Range, Rerun, Survey } from '../store/read.ts';
import { AdminError } from './error.ts';
import { changeInSteps } from './in-steps.ts';
import { unloadedWords } from './move.ts';

/** Events that are counted with one read of the store. */
const PAGE = 5_000;

export type RerunPlan = Awaited<ReturnType<typeof planRerun>>;

/**
 * Counts the events of the rerun. `purged`: those that are left out because their bodies were purged. Throws AdminError
 * if the handler is not loaded.
 */
export async function planRerun(
  store: Pick<Store, 'read' | 'admin' | 'now'>,
  asked: Pick<Rerun, 'handler' | 'type' | 'from' | 'to'>,
  [from, to]: [from: Point, to: Point | null],
) {
  const known = await store.read.handlers(store.now());
  const loaded = known.flatMap(({ name, loaded: is }) => (is ? [name] : []));
  if (!loaded.includes(asked.handler)) {
    const gone = known.some(({ name }) => name === asked.handler);
    const kept = gone ? `. Its waiting tasks are kept. ${unloadedWords(asked.handler)}` : '';
    const others = `loaded are: ${loaded.join(', ') || 'none'}${kept}`;
    throw new AdminError('missing', `no loaded handler is named ${asked.handler}; ${others}`);
  }
  const range = await store.admin.range(from, to);
  const types = await survey(store, range, asked.type);
  const total = (of: 'events' | 'purged'): number => types.reduce((sum, type) => sum + type[of], 0);
  return { ...asked, range, types, events: total('events'), purged: total('purged') };
}

/** Counts the events by type, the most frequent type first. */
async function survey(store: Pick<Store, 'admin'>, range: Range, only: string | null): Promise<Survey['types']> {
  const sums = new Map<string, Survey['types'][number]>();
  for (let at: Survey['next'] = null, last = false; !last; last = at === null) {
    const page: Survey = await store.admin.survey(range, only, at, PAGE);
    for (const { type, events, purged } of page.types) {
      const known = sums.get(type) ?? { type, events: 0, purged: 0 };
      sums.set(type, { type, events: known.events + events, purged: known.purged + purged });
    }
    at = page.next;
  }
  return [...sums.values()].toSorted((a, b) => b.events - a.events);
}

/**
 * Cancels a rerun: its waiting tasks are skipped, and its running tasks go on to their end. Resolves to the number of
 * skipped tasks. Throws AdminError.
 */
export async function cancelRerun(
  store: Pick<Store, 'admin'>,
  id: number,
  clock: Clock,
  onStep?: (done: number, of: number) => void,
): Promise<number> {
  const waiting = await store.admin.cancelRerun(id, clock.now());
  if (waiting === null) throw new AdminError('missing', `there is no open rerun ${id}`, 'npx kit rerun lists them');
  const discard = (ids: number[]): Promise<number> =>
    store.admin.discard(ids, `rerun ${id} was cancelled`, clock.now());
  return changeInSteps(waiting, discard, onStep);
}
