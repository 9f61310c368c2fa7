// Lets `keep` reconcile now, and follows the run to its end. The command can also lower the watermark, or remove it.
import { loadConfig, readEnv } from '../../config.ts';
import { EXIT } from '../../base/errors.ts';
import { askToReconcile } from '../../admin/range.ts';
import type { Lowered } from '../../store/keep.ts';
import type { Store } from '../../store/store.ts';
import type { Status } from '../../store/read.ts';
import { isBehind, parseCursor, type Cursor } from '../../wire/cursor.ts';
import { parse, UsageError, type Command } from '../lib/command.ts';
import { follow, type Look } from '../lib/follow.ts';
import { clean, count, fail, print, printJson } from '../lib/print.ts';
import { clock, keepIsUp, unlessItReads, withStore } from '../lib/store.ts';
import { printList } from '../lib/table.ts';

export default {
  summary: 'fetch what webhooks missed',
  usage: `reconcile [--json]
       npx kit reconcile --from <cursor> [--json]     lower the watermark, and read again from there
       npx kit reconcile --runs [--json]     the last runs, and how they ended
       npx kit reconcile --forget     remove the watermark, after API_KEY was removed for good`,
  async run(args) {
    const { values } = parse(args, { text: ['from'], flags: ['json', 'runs', 'forget'], names: false });
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
} satisfies Command;

async function reconcile(store: Store, to: Cursor | undefined, json: boolean): Promise<number> {
  const refused = await unlessItReads(store);
  if (refused !== undefined) return refused;
  const before = await store.read.status(store.now());
  if (to !== undefined) {
    if (!(await isPlace(store, to, before)))
      return fail(
        `the store knows no event at or below ${to}, so the watermark stays. Name a cursor that npx kit events shows; or ask the service with npx kit verify --from ${to}, which opens no gap: if it does not know ${to} either, nothing is missing there`,
      );
    const lowered = await store.replay.lowerWatermark({ to, why: 'asked', now: store.now() });
    if (!lowered.done) return fail(whyNot(to, lowered));
    if (!json) print(`the watermark went down from ${lowered.watermark} to ${to}`);
  }
  const after = await ask(store, json);
  const gaps = after.gaps - before.gaps;
  if (gaps > 0)
    process.stderr.write(`${count(gaps, 'gap')} opened: the service no longer has that range; npx kit gaps shows it\n`);
  const recovered = after.reconcile.recovered - before.reconcile.recovered;
  const { state, reason } = after.reconcile;
  if (json) printJson({ recovered, watermark: after.watermark, state, reason });
  else print(`${recovered} events recovered, watermark ${after.watermark ?? '-'}`);
  return state === 'idle' ? EXIT.done : fail(clean(reason ?? state), EXIT.failed);
}

/**
 * Whether replay can begin at `to`: the store has an event at or below `to`. Without one, a needless gap may open.
 * Also true if the watermark cannot be lowered, because `lowerWatermark` then names the reason.
 */
async function isPlace(store: Store, to: Cursor, { watermark, floor }: Status): Promise<boolean> {
  if (watermark === null || !isBehind(to, watermark) || !isBehind(floor, to)) return true;
  const { lowest } = await store.replay.anchors(store.now());
  return (lowest !== null && !isBehind(to, lowest)) || (await store.replay.cursorUpTo(to)) === to;
}

function whyNot(to: Cursor, lowered: Lowered & { done: false }): string {
  if (lowered.why === 'none')
    return 'there is no watermark yet: REPLAY_FROM says where reading begins; set it to the cursor, then npx kit reload';
  const { watermark, floor } = lowered;
  if (lowered.why === 'not_lower')
    return `the watermark is ${watermark}, and ${to} is not below it: nothing would be read again`;
  return `the floor is ${floor}: up to there events were pruned, and the watermark does not go below it; npx kit verify --from ${to} reads what lies there, and compares`;
}

/** Removes the watermark. Refuses if `keep` has a key, because replay would then begin again at another cursor. */
async function giveUp(): Promise<number | void> {
  const { API_KEY } = loadConfig(readEnv(), { only: ['API_KEY'] });
  if (API_KEY)
    return fail(
      'API_KEY is set. Only without it can the watermark be removed: remove the key, npx kit reload, then run this again',
    );
  return withStore(async (store): Promise<number | void> => {
    const { reconcile: running, processes } = await store.read.status(store.now());
    if (processes.keep === 'up' && running.state !== 'off')
      return fail('the running kit still has API_KEY: npx kit reload without the key, then run this again');
    const watermark = await store.replay.giveUpWatermark(store.now());
    if (watermark === null) return fail('there is no watermark to remove');
    print(
      `the watermark ${watermark} is removed. Events after it are a gap: npx kit gaps. A new key starts without a watermark`,
    );
  });
}

async function showRuns(json = false): Promise<void> {
  const runs = await withStore((store) => store.state.get('replay_runs'));
  const head = ['from', 'to', 'runs', 'pages', 'recovered', 'ended'];
  const rows = runs.map((run) => [run.from, run.to, run.runs, run.pages, run.recovered, run.reason ?? run.state]);
  const options = { none: 'no reconciliation has ended yet', least: ['pages', 'runs'] };
  return printList(json, { runs }, head, rows, options);
}

/**
 * Asks `keep` to reconcile. Resolves when a reconciliation that began after this request has ended, or cannot go on.
 */
async function ask(store: Store, json: boolean): Promise<Status> {
  const begun = clock.monotonic();
  const asked = store.now();
  const { lastAt: before } = (await store.read.status(asked)).reconcile;
  await askToReconcile(store, asked);
  return follow(json, async (): Promise<Look<Status>> => {
    const status = await store.read.status(store.now());
    const { state, lastAt, reason, recovered } = status.reconcile;
    const line = `${state}${reason ? ` (${clean(reason)})` : ''}: watermark ${status.watermark ?? '-'}, ${recovered} recovered in all`;
    const heard = clock.monotonic() - begun > 2_000;
    const isNew = lastAt !== null && lastAt !== before && (heard || Date.parse(lastAt) >= asked);
    const ended = state === 'idle' && (isNew || (heard && reason !== null));
    const cannot = heard && (state === 'stopped' || state === 'backing-off');
    const isDown = status.processes.keep === 'down' && !(await keepIsUp(store));
    return ended || cannot || isDown ? { line, result: status } : { line };
  });
}
