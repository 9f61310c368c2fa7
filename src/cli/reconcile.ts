// Asks `keep` to reconcile now, and follows it to the end.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../errors.ts';
import type { Store } from '../store/store.ts';
import type { Status } from '../store/watch-store.ts';
import {
  clean,
  clock,
  fail,
  keepIsUp,
  parse,
  print,
  printJson,
  printTable,
  whyDown,
  withStore,
  type Command,
} from './command.ts';

const LOOK_MS = 250;

const command: Command = {
  summary: 'fetch now what webhooks missed',
  usage: 'reconcile [--json]\n       npx kit reconcile --runs [--json]     the last runs, and how they ended',
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' }, runs: { type: 'boolean' } }, { names: false });
    if (values.runs) return showRuns(values.json);
    return withStore(async (store) => {
      if (!(await keepIsUp(store))) return fail(await whyDown(), EXIT.unreachable);
      const before = await store.status(clock.now());
      if (before.reconcile.state === 'off')
        return fail('reconciliation is off: set API_BASE_URL and API_KEY', EXIT.configuration);
      const after = await follow(store, values.json ? () => {} : print);
      const recovered = after.reconcile.recovered - before.reconcile.recovered;
      const { state, reason } = after.reconcile;
      if (values.json) printJson({ recovered, watermark: after.watermark, state, reason });
      else print(`${recovered} events recovered, watermark ${after.watermark ?? '-'}`);
      return state === 'idle' ? EXIT.done : fail(clean(reason ?? state), EXIT.failed);
    });
  },
};
export default command;

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

/** Until a reconciliation that began after the question has ended, or says why it cannot. */
async function follow(store: Store, say: (text: string) => void): Promise<Status> {
  const before = (await store.status(clock.now())).reconcile.lastAt;
  const asked = clock.monotonic();
  await store.note({}, { reconcile_asked: clock.now() });
  let shown = '';
  for (;;) {
    await sleep(LOOK_MS);
    const status = await store.status(clock.now());
    const { state, lastAt, reason, recovered } = status.reconcile;
    const line = `${state}${reason ? ` (${clean(reason)})` : ''}: watermark ${status.watermark ?? '-'}, ${recovered} recovered in all`;
    if (line !== shown) say(line);
    shown = line;
    const heard = clock.monotonic() - asked > 2_000;
    const ended = state === 'idle' && ((lastAt !== null && lastAt !== before) || (heard && reason !== null));
    if (ended || (heard && (state === 'stopped' || state === 'backing-off'))) return status;
    if (status.processes.keep === 'down' && !(await keepIsUp(store))) return status;
  }
}
