// One row a minute of what the charts show.
import { MINUTE_MS, refusedIn, totalOf } from '../operations/judge.ts';
import type { Keep, Step } from './keep.ts';

export function createSamples({ read, admin, clock }: Keep): Step {
  return async () => {
    const facts = await read.facts();
    const { events = 0, duplicates = 0, pruned = 0, pruned_done: done = 0 } = facts.counters;
    const of = (name: 'done' | 'failed' | 'waiting' | 'dead'): number => totalOf(facts, name);
    const tasks = { done: of('done') + done, failed: of('failed'), waiting: of('waiting'), dead: of('dead') };
    await admin.sample({ events: events + pruned, duplicates, refused: refusedIn(facts), ...tasks });
    return MINUTE_MS - (clock.now() % MINUTE_MS);
  };
}
