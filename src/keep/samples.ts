// Stores what the charts show, one row a minute, and keeps the rows for a week.
import { DAY_MS, MINUTE_MS, refusedIn, totalOf } from '../operations/judge.ts';
import { readFacts } from '../operations/store/facts.ts';
import type { Sample } from '../operations/store/shapes.ts';
import type { Keep, Step } from './keep.ts';

const INSERT = `insert into samples values (@at, @events, @duplicates, @refused, @done, @failed, @waiting, @dead)
  on conflict (at) do nothing`;

export function createSamples({ db }: Keep): Step {
  return async () => {
    const facts = await readFacts(db);
    const { events = 0, duplicates = 0, pruned = 0, pruned_done: done = 0 } = facts.state as Record<string, number>;
    const of = (name: 'done' | 'failed' | 'waiting' | 'dead'): number => totalOf(facts, name);
    const tasks = { done: of('done') + done, failed: of('failed'), waiting: of('waiting'), dead: of('dead') };
    const sample: Sample = { events: events + pruned, duplicates, refused: refusedIn(facts), ...tasks };
    const at = facts.at - (facts.at % MINUTE_MS);
    await db.write(async (tx) => {
      await tx.run(INSERT, { ...sample, at });
      await tx.run('delete from samples where at < @before', { before: at - 7 * DAY_MS });
    });
    return MINUTE_MS - (db.clock.now() % MINUTE_MS);
  };
}
