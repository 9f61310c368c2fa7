// Is it healthy? The figures of the store, and whether the processes live.
import { EXIT } from '../../base/errors.ts';
import type { ReceiverState } from '../../receive/app.ts';
import { StoreError } from '../../store/store.ts';
import type { Status } from '../../store/read.ts';
import {
  clean,
  clock,
  fail,
  parse,
  print,
  printJson,
  readiness,
  withStore,
  type Command,
  type Readiness,
} from '../lib/command.ts';

const QUIET_MS = 180_000;
/** While one of these holds, deliveries may be kept from us. */
const NOT_QUIET = new Set(['failure_run', 'webhook_silent', 'secret_mismatch']);

const command: Command = {
  summary: 'is it healthy: events, tasks, recovery, alarms',
  usage: 'status [--json] [--ready]     --ready: exit 1 unless deliveries can be taken; for health checks',
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' }, ready: { type: 'boolean' } }, { names: false });
    if (values.ready) return isReady();
    const receiver = await readiness();
    try {
      await withStore(async (store) => {
        const status = withState(await store.status(clock.now()), receiver.state);
        const missed = (await store.types()).reduce((sum, type) => sum + type.missed, 0);
        if (values.json) printJson(status);
        else show(status, missed, receiver);
      });
    } catch (error) {
      if (!(error instanceof StoreError) || !receiver.state) throw error;
      return showUnread(error.message, receiver.state, values.json);
    }
    return EXIT.done;
  },
};
export default command;

/** What the receiver says of itself holds, where the store says otherwise. */
function withState(status: Status, state: ReceiverState | undefined): Status {
  if (!state) return status;
  return { ...status, processes: state.processes, alarms: [...state.alarms, ...status.alarms] };
}

/** The store cannot be read, but the receiver can be asked. */
function showUnread(error: string, { processes, alarms }: ReceiverState, json = false): number {
  if (json) printJson({ processes, alarms, error });
  else {
    line('processes', livesOf(processes));
    showAlarms(alarms);
  }
  return fail(clean(error));
}

function line(name: string, value: string | number | null): void {
  print(`${name.padEnd(13)}${value ?? '-'}`);
}

function livesOf(processes: Status['processes']): string {
  return Object.entries(processes)
    .map(([role, state]) => `${role} ${state}`)
    .join(', ');
}

function showAlarms(alarms: Status['alarms']): void {
  if (alarms.length === 0) line('alarms', 'none');
  for (const { name, since, detail } of alarms) line('alarm', `${name} since ${since}: ${clean(detail)}`);
}

async function isReady(): Promise<number> {
  const { words, ready } = await readiness();
  print(words);
  return ready ? EXIT.done : EXIT.failed;
}

function show(status: Status, missed: number, { words, ready, listens }: Readiness): void {
  const { tasks, reconcile, processes } = status;
  line('processes', livesOf(processes));
  if (processes.receive === 'down' || (listens && !ready))
    line('', `by its own account: ${words}${listens && !ready ? '; figures are those of before' : ''}`);
  line(
    'events',
    `${status.events} stored, ${status.unassigned} not yet tasks, ${status.undecided > 0 ? `${status.undecided} undecided (history or not), ` : ''}${status.duplicates} duplicates, ${status.quarantined} quarantined, ${status.conflicts} conflicts`,
  );
  line(
    'tasks',
    Object.entries(tasks)
      .map(([state, count]) => `${count} ${state}`)
      .join(', '),
  );
  line('oldest ready', status.oldestReadySeconds === null ? null : `${status.oldestReadySeconds} s`);
  line(
    'cursor',
    `watermark ${status.watermark ?? '-'}, newest ${status.newestCursor ?? '-'}, floor ${status.floor ?? '-'}`,
  );
  line(
    'reconcile',
    `${reconcile.state}${reconcile.reason ? ` (${clean(reconcile.reason)})` : ''}, last ${reconcile.lastAt ?? 'never'}, ${reconcile.recovered} recovered`,
  );
  if (status.stream.state !== 'off')
    line(
      'stream',
      `${status.stream.state}${status.stream.reason ? ` (${clean(status.stream.reason)})` : ''}, since ${status.stream.since ?? '-'}`,
    );
  line('gaps', status.gaps === 0 ? 0 : `${status.gaps} open: npx kit gaps`);
  const { causes, badSignatures } = status.failures;
  const why = Object.entries(causes).map(([cause, count]) => `${count} ${cause}`);
  line(
    'failure run',
    `${status.failureRun} ${status.failureRun > 15 ? 'past' : 'of'} 15${why.length > 0 ? ` (${why.join(', ')})` : ''}`,
  );
  const noise =
    badSignatures > 0
      ? `; ${status.lastDeliveryAt ? 'since then ' : ''}${badSignatures} that no secret of ours signed`
      : '';
  line('deliveries', `last ${status.lastDeliveryAt ?? 'never'}${noise}${quietOf(status, missed)}`);
  line('secrets', status.secrets.map(wordingOf).join('; ') || null);
  showAlarms(status.alarms);
}

/** Nothing comes, and nothing is missing, as far as replay can tell; a webhook that is off would look the same. */
function quietOf({ lastDeliveryAt, reconcile, failureRun, alarms }: Status, missed: number): string {
  if (missed > 0) return `; since then ${missed} were fetched that no webhook brought`;
  if (failureRun > 0 || alarms.some(({ name }) => NOT_QUIET.has(name))) return '';
  const quiet = lastDeliveryAt !== null && clock.now() - Date.parse(lastDeliveryAt) > QUIET_MS;
  return quiet && reconcile.state === 'idle' ? '; quiet: replay shows nothing missing' : '';
}

function wordingOf({ number, hits, lastAt, mayGo }: Status['secrets'][number]): string {
  return `${number}: signed ${hits}, last ${lastAt ?? 'never'}${mayGo ? ', safe to remove' : ''}`;
}
