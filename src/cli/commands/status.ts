// Shows the health of the kit: a sentence, figures of the store, processes, alarms.
import { health } from '../../admin/health.ts';
import { EXIT } from '../../base/errors.ts';
import type { AlarmRules } from '../../keep/module.ts';
import { UNREAD } from '../../keep/view.ts';
import type { ReceiverState } from '../../receive/app.ts';
import { readSignatureJudgement } from '../../receive/bad-signatures.ts';
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';
import { StoreError } from '../../store/store.ts';
import type { Status } from '../../store/read.ts';
import { parse, type Command } from '../lib/command.ts';
import * as modules from '../lib/modules.ts';
import { clean, fail, print, printJson } from '../lib/print.ts';
import { clock, readiness, withStore, type Readiness } from '../lib/store.ts';

const QUIET_MS = 180_000;
const { RULES }: Partial<Record<string, AlarmRules>> = modules;

export default {
  summary: 'health: events, tasks, recovery, alarms',
  usage: `status [--json] [--ready]
  --ready: exit 1 unless deliveries are accepted; for health checks`,
  async run(args): Promise<number | void> {
    const { values } = parse(args, { flags: ['json', 'ready'], names: false });
    if (values.ready) return isReady();
    const receiver = await readiness();
    try {
      await withStore(async (store) => {
        const status = withState(await store.read.status(store.now()), receiver.state);
        const missed = (await store.replay.types()).reduce(
          (sum, type) => sum + (type.deliveredAt === null ? 0 : type.missed),
          0,
        );
        if (values.json) printJson(status);
        else show(status, missed, receiver, (await readSignatureJudgement(store, status, store.now())).words);
      });
    } catch (error) {
      if (!(error instanceof StoreError) || !receiver.state) throw error;
      return showUnread(error.message, receiver.state, values.json);
    }
  },
} satisfies Command;

/** Prefers the receiver's own answer, because the store can be out of date. */
export function withState(status: Status, state: ReceiverState | undefined): Status {
  if (!state) return status;
  // Of several instances, the receiver knows only its own.
  const { processes } = status.instances.length > 1 ? status : state;
  return { ...status, processes, alarms: [...state.alarms, ...status.alarms] };
}

/** Shows what the receiver answered if the store cannot be read. */
function showUnread(error: string, { processes, alarms }: ReceiverState, json = false): number {
  if (json) printJson({ processes, alarms, error });
  else {
    if (alarms.length > 0) begin({ ...UNREAD, processes, alarms });
    line('processes', livesOf(processes));
    if (alarms.length > 0) showAlarms(alarms);
    line('alarms', `${alarms.length > 0 ? 'others are ' : ''}not known, because the store cannot be read`);
  }
  return fail(clean(error));
}

function begin(status: Status): void {
  const { word, words } = health(status, RULES ?? {});
  print(`${word}. ${words}\n`);
}

function line(name: string, value: string | number | null): void {
  print(`${name.padEnd(13)}${value ?? '-'}`);
}

function livesOf(processes: Status['processes']): string {
  const lives = Object.entries(processes).map(([role, state]) => `${role} ${state}`);
  return lives.join(', ');
}

function membersOf(instances: Status['instances']): string {
  const up = instances.filter(({ lostAt }) => lostAt === null);
  const leader = up.find(({ leads }) => leads)?.name ?? 'none';
  const lost = instances.flatMap(({ name, lostAt }) =>
    lostAt === null ? [] : [`${clean(name)} lost since ${lostAt}`],
  );
  return [`${up.length} up, ${clean(leader)} leads`, ...lost].join('; ');
}

function tally(counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  return parts.join(', ');
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

export function show(status: Status, missed: number, { words, ready, listens }: Readiness, signatures: string): void {
  const { reconcile, stream, processes, failures, failureRun, undecided } = status;
  begin(status);
  line('processes', livesOf(processes));
  if (processes.receive === 'down' || (listens && !ready))
    line('', `the receiver says: ${words}${listens && !ready ? '; figures are those of before' : ''}`);
  if (status.instances.length > 0) line('instances', membersOf(status.instances));
  for (const { handler, since } of status.waiting)
    line('waiting', `events since ${since} for the handler ${clean(handler)}, which is not loaded`);
  if (status.moving) line('moving', `${status.moving.rows} of ${status.moving.of} rows copied; handlers pause`);
  const open = undecided > 0 ? `, ${undecided} undecided (history or not)` : '';
  const rest = `${status.duplicates} duplicates, ${status.quarantined} quarantined, ${status.conflicts} conflicts`;
  line('events', `${status.events} stored, ${status.unassigned} not yet tasks${open}, ${rest}`);
  line('tasks', tally(status.tasks));
  line('oldest ready', status.oldestReadySeconds === null ? null : `${status.oldestReadySeconds} s`);
  const [watermark, newest, floor] = [status.watermark ?? '-', status.newestCursor ?? '-', status.floor ?? '-'];
  line('cursor', `watermark ${watermark}, newest ${newest}, floor ${floor}`);
  const last = `last ${reconcile.lastAt ?? 'never'}, ${reconcile.recovered} recovered`;
  line('reconcile', `${reconcile.state}${because(reconcile.reason)}, ${last}`);
  if (stream.state !== 'off') line('stream', `${stream.state}${because(stream.reason)}, since ${stream.since ?? '-'}`);
  line('gaps', status.gaps === 0 ? 0 : `${status.gaps} open: npx kit gaps`);
  line(
    'failure run',
    `${failureRun} ${failureRun > FAILURES_ALLOWED ? 'past' : 'of'} ${FAILURES_ALLOWED}${because(tally(failures.causes))}`,
  );
  const quiet = quietOf(status, missed);
  line(
    'deliveries',
    `last ${status.lastDeliveryAt ?? 'never'}${failures.badSignatures > 0 ? `; ${signatures}` : ''}${quiet}`,
  );
  line('secrets', status.secrets.map(wordingOf).join('; ') || null);
  showAlarms(status.alarms);
}

function because(reason: string | null): string {
  return reason ? ` (${clean(reason)})` : '';
}

/**
 * Says what replay shows while no webhook arrives. Otherwise a quiet account would look like a webhook that is switched
 * off.
 */
function quietOf({ lastDeliveryAt, reconcile, failureRun, alarms }: Status, missed: number): string {
  if (missed > 0) return `; since then ${missed} fetched that no webhook delivered`;
  if (failureRun > 0 || alarms.length > 0) return '';
  const quiet = lastDeliveryAt !== null && clock.now() - Date.parse(lastDeliveryAt) > QUIET_MS;
  return quiet && reconcile.state === 'idle' ? '; quiet: replay shows nothing missing' : '';
}

function wordingOf({ number, hits, lastAt, mayGo }: Status['secrets'][number]): string {
  return `${number}: signed ${hits}, last ${lastAt ?? 'never'}${mayGo ? ', safe to remove' : ''}`;
}
