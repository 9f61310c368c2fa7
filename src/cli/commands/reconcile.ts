// Asks `keep` to reconcile now, and follows it to the end. Lowers the watermark, or gives it up, where a person says so.
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import type { Lowered } from '../../store/keep.ts';
import type { Store } from '../../store/store.ts';
import type { Status } from '../../store/read.ts';
import { isBehind, parseCursor, type Cursor } from '../../wire/cursor.ts';
import {
  clean,
  clock,
  count,
  fail,
  keepIsUp,
  parse,
  print,
  printJson,
  printTable,
  unlessItReads,
  UsageError,
  withStore,
  type Command,
} from '../lib/command.ts';

const LOOK_MS = 250;

const command: Command = {
  summary: 'fetch now what webhooks missed',
  usage: `reconcile [--json]
       npx kit reconcile --from <cursor> [--json]     lower the watermark, and read again from there
       npx kit reconcile --runs [--json]     the last runs, and how they ended
       npx kit reconcile --forget     give the watermark up, once API_KEY is taken out for good`,
  async run(args) {
    const flag = { type: 'boolean' } as const;
    const options = { json: flag, runs: flag, forget: flag, from: { type: 'string' } } as const;
    const { values } = parse(args, options, { names: false });
    const { json = false, runs, forget, from } = values;
    if ([runs, forget, from !== undefined].filter(Boolean).length > 1)
      throw new UsageError('--from, --runs and --forget do not go together');
    if (runs) return showRuns(json);
    if (forget) return giveUp();
    const to = from === undefined ? undefined : parseCursor(from.replace(/^c:/, ''));
    if (from !== undefined && to === undefined)
      throw new UsageError('--from must be a cursor: npx kit events shows them');
    return withStore((store) => reconcile(store, to, json));
  },
};
export default command;

async function reconcile(store: Store, to: Cursor | undefined, json: boolean): Promise<number> {
  const refused = await unlessItReads(store);
  if (refused !== undefined) return refused;
  const before = await store.status(clock.now());
  if (to !== undefined) {
    if (!(await isPlace(store, to, before)))
      return fail(
        `the store knows no event at or below ${to}, so the watermark stays. Name a cursor that npx kit events shows; or ask the service with npx kit verify --from ${to}, which opens no gap: if it does not know ${to} either, nothing is missing there`,
      );
    const lowered = await store.lowerWatermark({ to, why: 'asked', now: clock.now() });
    if (!lowered.done) return fail(whyNot(to, lowered));
    if (!json) print(`the watermark went down from ${lowered.watermark} to ${to}`);
  }
  const after = await follow(store, json ? () => {} : print);
  const gaps = after.gaps - before.gaps;
  if (gaps > 0)
    process.stderr.write(
      `${count(gaps, 'gap')} opened: the service no longer has that stretch; npx kit gaps shows it\n`,
    );
  const recovered = after.reconcile.recovered - before.reconcile.recovered;
  const { state, reason } = after.reconcile;
  if (json) printJson({ recovered, watermark: after.watermark, state, reason });
  else print(`${recovered} events recovered, watermark ${after.watermark ?? '-'}`);
  return state === 'idle' ? EXIT.done : fail(clean(reason ?? state), EXIT.failed);
}

/**
 * Whether reading can begin there without a gap that stands for nothing: the service has shown this cursor, or one below
 * it that is read from where it does not know this one. Where the watermark would not go anyway, it says why itself.
 */
async function isPlace(store: Store, to: Cursor, { watermark, floor }: Status): Promise<boolean> {
  if (watermark === null || !isBehind(to, watermark) || !isBehind(floor, to)) return true;
  const { lowest } = await store.anchors(clock.now());
  return (lowest !== null && !isBehind(to, lowest)) || (await store.cursorUpTo(to)) === to;
}

function whyNot(to: Cursor, lowered: Lowered & { done: false }): string {
  if (lowered.why === 'none')
    return 'there is no watermark yet: REPLAY_FROM says where reading begins; set it to the cursor, and send SIGHUP';
  const { watermark, floor } = lowered;
  if (lowered.why === 'not_lower')
    return `the watermark stands at ${watermark}, and ${to} is not below it: nothing is read twice by that`;
  return `the floor is ${floor}: up to there events were pruned, and the watermark does not go below it; npx kit verify --from ${to} reads what lies there, and compares`;
}

/** Only where nobody reads from it any more: else the next reading would begin where nobody expects it. */
async function giveUp(): Promise<number> {
  const { API_KEY } = loadConfig(readEnv(), { only: ['API_KEY'] });
  if (API_KEY)
    return fail(
      'API_KEY is set: a watermark is given up when the key is taken out for good; take it out, restart, then ask again',
    );
  return withStore(async (store) => {
    const { reconcile: running, processes } = await store.status(clock.now());
    if (processes.keep === 'up' && running.state !== 'off')
      return fail('the kit that runs still has API_KEY: restart it without, then ask again');
    const watermark = await store.giveUpWatermark(clock.now());
    if (watermark === null) return fail('there is no watermark to give up');
    print(
      `the watermark ${watermark} is given up: what comes after it is a gap, see npx kit gaps; another key begins anew`,
    );
    return EXIT.done;
  });
}

async function showRuns(json = false): Promise<number> {
  const runs = await withStore((store) => store.replayRuns());
  if (json) printJson({ runs });
  else
    printTable(
      ['from', 'to', 'runs', 'pages', 'recovered', 'ended'],
      runs.map((run) => [run.from, run.to, run.runs, run.pages, run.recovered, run.reason ?? run.state]),
    );
  return EXIT.done;
}

/** Until a reconciliation has ended after the question, or says why it cannot. */
async function follow(store: Store, say: (text: string) => void): Promise<Status> {
  const begun = clock.monotonic();
  const asked = clock.now();
  const { lastAt: before } = (await store.status(clock.now())).reconcile;
  await store.note({}, { reconcile_asked: asked });
  let shown = '';
  for (;;) {
    await sleep(LOOK_MS);
    const status = await store.status(clock.now());
    const { state, lastAt, reason, recovered } = status.reconcile;
    const line = `${state}${reason ? ` (${clean(reason)})` : ''}: watermark ${status.watermark ?? '-'}, ${recovered} recovered in all`;
    if (line !== shown) say(line);
    shown = line;
    const heard = clock.monotonic() - begun > 2_000;
    const isNew = lastAt !== null && lastAt !== before && (heard || Date.parse(lastAt) >= asked);
    const ended = state === 'idle' && (isNew || (heard && reason !== null));
    if (ended || (heard && (state === 'stopped' || state === 'backing-off'))) return status;
    if (status.processes.keep === 'down' && !(await keepIsUp(store))) return status;
  }
}
