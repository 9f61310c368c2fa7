// What people change. To change tasks, name an event, a filter or --all. Many ended tasks run again behind live work.
import { z } from 'zod';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { cursorArg, flag, taskFilter } from './arguments.ts';
import { define, Refused } from './define.ts';
import { reconcileOf } from './judge.ts';
import { eventNamed, handlerNamed } from './named.ts';
import { readFacts } from './store/facts.ts';
import { tell, type PeopleStore } from './store/open.ts';
import type { HandlerFacts } from './store/shapes.ts';
import { discard as discardTasks, hasten, rerun as addRerun, retry as retryTask } from './store/tasks.ts';

const PAUSE = 'update handlers set paused = @paused where name = @which';
const STOP = `update reruns set ended_at = @now, filter = '{}'
  where ended_at is null and handler = (select id from handlers where name = @name)`;

const ARGS = z.object({
  handler: z.string().min(1).describe("the handler's name"),
  ...taskFilter.pick({ event: true, type: true, session: true, error: true }).shape,
  from: cursorArg.optional().describe('from this cursor on'),
  to: cursorArg.optional().describe('up to this cursor'),
  all: flag.describe('everything, without a filter'),
  perMinute: z.coerce.number().int().min(1).max(60_000).optional().describe('at most this many tasks a minute'),
});

/** Refuses a change that names neither a filter nor --all. */
function someOf(names: string, { all, ...filter }: Record<string, unknown>): void {
  if (!all && Object.values(filter).every((value) => value === undefined || value === null))
    throw new Refused(`say which: ${names}, or --all`);
}

const cursorOf = (text: string | null): Cursor | null => parseCursor(text) ?? null;

/** Refuses a handler that does not work: its tasks would wait, and nobody would notice. */
async function workingHandler(db: PeopleStore, name: string): Promise<HandlerFacts> {
  const handler = await handlerNamed(db, name);
  const { state, paused, fault } = handler;
  if (paused) throw new Refused(`${name} is paused: run npx kit resume ${name} first`);
  if (state !== 'loaded') throw new Refused(`${name} is ${state}${fault ? ` (${fault})` : ''}: correct its file first`);
  return handler;
}

export const retry = define({
  name: 'retry',
  about: 'runs failing tasks now, and dead letters behind live work; with --event, one task now, even a skipped one',
  args: ARGS.omit({ from: true, to: true }),
  access: 'change',
  async run(context, { handler: name, event, all, perMinute: pace = null, ...filter }) {
    const { dead } = await workingHandler(context.db, name);
    if (event !== undefined) {
      if (all || pace !== null || Object.values(filter).some((value) => value !== undefined))
        throw new Refused('--event names one task: leave out the other filters, --all and --per-minute');
      const isRetried = await retryTask(context.db, name, (await eventNamed(context.db, event)).seq);
      if (!isRetried)
        throw new Refused(`${name} has no task of ${event}, or has done it: see npx kit explain ${event}`);
      return { retried: 1 };
    }
    someOf('--event, --error, --type, --session', { ...filter, all });
    const failing = await hasten(context.db, { handler: name, ...filter, limit: 0 });
    if (dead + failing === 0) throw new Refused(`${name} has no dead letters, and no failing task matches`);
    const which = { handler: name, only: 'dead', filter, from: null, to: null, perMinute: pace } as const;
    if (dead > 0) await addRerun(context.db, which);
    return { failing, words: `failing tasks run now; of ${dead} dead letters, those that match run behind live work` };
  },
});

export const rerun = define({
  name: 'rerun',
  about: 'gives stored events to a handler again, behind live work',
  args: ARGS.omit({ event: true, error: true }).extend({
    stop: flag.describe('ends reruns of the handler, also those that retry began'),
  }),
  access: 'change',
  async run(context, { handler: name, from = null, to = null, all, perMinute: pace = null, stop, ...filter }) {
    await handlerNamed(context.db, name);
    if (stop) {
      const stopped = await context.db.run(STOP, { name, now: context.clock.now() });
      return { stopped, words: 'tasks that the reruns have already put back still run' };
    }
    await workingHandler(context.db, name);
    someOf('--from, --to, --type, --session', { ...filter, from, to, all });
    const range = { from: cursorOf(from), to: cursorOf(to) };
    const number = await addRerun(context.db, { handler: name, only: 'all', filter, ...range, perMinute: pace });
    return { rerun: number, words: 'the handler gets the events behind live work' };
  },
});

export const discard = define({
  name: 'discard',
  about: "ends a handler's waiting tasks as skipped; name one --event, a filter, or --all",
  args: ARGS.omit({ from: true, to: true, perMinute: true }),
  access: 'change',
  async run(context, { handler: name, event, all, ...filter }) {
    await handlerNamed(context.db, name);
    someOf('--event, --error, --type, --session', { ...filter, event, all });
    const seq = event === undefined ? undefined : String((await eventNamed(context.db, event)).seq);
    return { discarded: await discardTasks(context.db, { handler: name, ...filter, event: seq, limit: 0 }) };
  },
});

const pausing = (name: 'pause' | 'resume', about: string) =>
  define({
    name,
    about,
    args: ARGS.pick({ handler: true }),
    first: ['handler'],
    access: 'change',
    async run(context, { handler: which }) {
      await handlerNamed(context.db, which);
      const paused = name === 'pause';
      await context.db.run(PAUSE, { which, paused: Number(paused) });
      return { handler: which, paused };
    },
  });

export const pause = pausing('pause', 'stops a handler from beginning tasks; new events still become waiting tasks');
export const resume = pausing('resume', 'lets a paused handler begin tasks again');

export const reconcile = define({
  name: 'reconcile',
  about: 'reads the history now; with --from, reads again what comes after that cursor, and closes the gaps there',
  args: ARGS.pick({ from: true }),
  access: 'change',
  async run({ db, clock }, { from = null }) {
    const facts = await readFacts(db);
    if (reconcileOf(facts).state === 'off')
      throw new Refused('history is not read: set API_BASE_URL and API_KEY, then restart the kit');
    if (from !== null && BigInt(from) < BigInt(facts.floor ?? 0))
      throw new Refused(`pruning has removed everything up to ${facts.floor}: name that cursor or a higher one`);
    await tell(db, 'reconcile_asked', { at: clock.now(), from });
    return { asked: true, from, words: 'history is read within seconds: see npx kit status' };
  },
});
