// The state of the kit in one answer, and the handlers.
import { z } from 'zod';
import { iso } from '../base/clock.ts';
import { VERSION } from '../version.ts';
import { alarmsOf } from './alarms.ts';
import { flag } from './arguments.ts';
import { define, Refused } from './define.ts';
import { behindOf, DAY_MS, failuresOf, handlerState, headlineOf, processesOf, reconcileOf, totalOf } from './judge.ts';
import { handlerNamed } from './named.ts';
import { readFacts } from './store/facts.ts';
import type { Disk, Facts, Sample } from './store/shapes.ts';
import { forget as forgetHandler } from './store/tasks.ts';

export function statusOf(facts: Facts, disk: Disk) {
  const { handlers, running } = facts;
  const alarms = alarmsOf(facts, disk);
  const due = handlers.flatMap(({ dueSince }) => dueSince ?? []);
  const { state, lastAt, reason, recovered } = reconcileOf(facts);
  const of = (name: 'done' | 'skipped' | 'dead'): number => totalOf(facts, name);
  const waiting = Math.max(0, totalOf(facts, 'waiting') - running);
  return {
    headline: headlineOf(facts, alarms),
    version: VERSION,
    events: Number(facts.state['events'] ?? 0),
    behind: behindOf(facts),
    duplicates: Number(facts.state['duplicates'] ?? 0),
    quarantined: Number(facts.state['quarantined'] ?? 0),
    tasks: { waiting, running, done: of('done'), skipped: of('skipped'), dead: of('dead') },
    oldestWaitingSeconds: due.length > 0 ? Math.max(0, Math.round((facts.at - Math.min(...due)) / 1_000)) : null,
    watermark: facts.watermark,
    floor: facts.floor,
    newestCursor: facts.newestCursor,
    gaps: facts.gaps.length,
    failuresInARow: failuresOf(facts),
    reconcile: { state, lastAt: iso(lastAt), reason, recovered },
    alarms: alarms.map((alarm) => {
      const raisedAt = facts.alarms.find(({ name, about }) => name === alarm.name && about === alarm.about)?.raisedAt;
      return { ...alarm, since: iso(raisedAt ?? facts.at) };
    }),
    handlers: handlers.map((one) => ({
      name: one.name,
      state: handlerState(one),
      waiting: one.waiting,
      dead: one.dead,
    })),
    processes: processesOf(facts),
    instances: facts.instances,
  };
}

const GROWING = ['events', 'duplicates', 'refused', 'done', 'failed'] as const;
const QUARTER_MS = 900_000;

/** What came in each quarter of an hour, and what was waiting and dead at its end. Samples hold sums since the beginning. */
export function chartsOf(samples: (Sample & { at: number })[]) {
  const ends = samples.filter(({ at }, n) => n === 0 || n === samples.length - 1 || at % QUARTER_MS === 0);
  return ends.slice(1).map(({ at, waiting, dead, ...sums }, n) => {
    const grown = GROWING.map((name) => [name, Math.max(0, sums[name] - (ends[n]?.[name] ?? 0))] as const);
    return { at: iso(at), ...(Object.fromEntries(grown) as Record<(typeof GROWING)[number], number>), waiting, dead };
  });
}

export const status = define({
  name: 'status',
  about: 'whether all is well, how many tasks wait, and which alarms are raised',
  args: z.object({ charts: flag.describe('adds numbers of the last 24 hours, by quarter-hour') }),
  access: 'read',
  async run({ db, clock, disk }, { charts }) {
    const state = statusOf(await readFacts(db), disk());
    if (!charts) return state;
    const samples = 'select * from samples where at >= @since order by at';
    return { ...state, charts: chartsOf(await db.all(samples, { since: clock.now() - DAY_MS })) };
  },
  show: ({ headline, alarms, ...rest }) => ({
    words: headline.text,
    alarms: alarms.map(({ level, text, since }) => `${level}: ${text} (since ${since})`),
    ...rest,
  }),
});

export const handlers = define({
  name: 'handlers',
  about: 'the handlers, with their states and counts; --forget NAME deletes a handler whose file will not come back',
  args: z.object({ forget: z.string().optional() }),
  access: 'change',
  reads: true,
  byPost: ['forget'],
  async run({ db }, { forget }) {
    if (forget !== undefined) {
      if ((await handlerNamed(db, forget)).state === 'loaded')
        throw new Refused(`${forget} has a file and works: remove the file first, then send SIGHUP`);
      await forgetHandler(db, forget);
    }
    const { handlers: list } = await readFacts(db);
    return list.map((handler) => {
      const { name, file, fault, waiting, done, skipped, dead, failed, failing, behind } = handler;
      const rest = { waiting, done, skipped, dead, failed, behind, fault, file };
      return { name, state: handlerState(handler), failingSince: iso(failing?.since ?? null), ...rest };
    });
  },
});
