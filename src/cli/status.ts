// Is it healthy? The figures of the store, and whether the processes live.
import { EXIT } from '../errors.ts';
import type { Status } from '../store/watch-store.ts';
import { clean, clock, parse, print, printJson, readiness, withStore, type Command } from './command.ts';

const QUIET_MS = 180_000;

const command: Command = {
  summary: 'is it healthy: events, tasks, recovery, alarms',
  usage: 'status [--json] [--ready]     --ready: exit 1 unless deliveries can be taken; for health checks',
  async run(args) {
    const { values } = parse(args, { json: { type: 'boolean' }, ready: { type: 'boolean' } }, { names: false });
    if (values.ready) return isReady();
    await withStore(async (store) => {
      const status = await store.status(clock.now());
      const missed = (await store.types()).reduce((sum, type) => sum + type.missed, 0);
      if (values.json) printJson(status);
      else await show(status, missed);
    });
    return EXIT.done;
  },
};
export default command;

async function isReady(): Promise<number> {
  const { words, ready } = await readiness();
  print(words);
  return ready ? EXIT.done : EXIT.failed;
}

async function show(status: Status, missed: number): Promise<void> {
  const { tasks, reconcile, processes } = status;
  const line = (name: string, value: string | number | null): void => print(`${name.padEnd(13)}${value ?? '-'}`);
  line(
    'processes',
    Object.entries(processes)
      .map(([role, state]) => `${role} ${state}`)
      .join(', '),
  );
  if (processes.receive === 'down') {
    const { words, ready, listens } = await readiness();
    line('', `by its own account: ${words}${listens && !ready ? '; figures are those of before' : ''}`);
  }
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
  if (status.alarms.length === 0) line('alarms', 'none');
  for (const { name, since, detail } of status.alarms) line('alarm', `${name} since ${since}: ${clean(detail)}`);
}

/** Nothing comes, and nothing is missing, as far as replay can tell. */
function quietOf({ lastDeliveryAt, reconcile }: Status, missed: number): string {
  if (missed > 0) return `; since then ${missed} were fetched that no webhook brought`;
  const quiet = lastDeliveryAt !== null && clock.now() - Date.parse(lastDeliveryAt) > QUIET_MS;
  return quiet && reconcile.state === 'idle' ? '; merely quiet: replay shows nothing that they missed' : '';
}

function wordingOf({ number, hits, lastAt, mayGo }: Status['secrets'][number]): string {
  return `${number}: signed ${hits}, last ${lastAt ?? 'never'}${mayGo ? ', may go' : ''}`;
}
