// The rules of the alarms: what stands now, each with its remedy. Pure. One fault raises one alarm.
import {
  causeOf,
  count,
  duration,
  failureOf,
  failuresOf,
  HOUR_MS,
  kitOf,
  MINUTE_MS,
  NOT_RUNNING,
  reconcileOf,
  refusedWords,
  RUN_DOWN,
  SECOND_MS,
} from './judge.ts';
import type { Alarm, Facts, HandlerFacts } from './store/read.ts';

/** The service switches the webhook off at 15 (contract 3.2). */
const FAILURES = { warning: 3, critical: 10, off: 15 };
const LATE_MS = { waiting: 5 * MINUTE_MS, strict: 5 * MINUTE_MS, process: 30 * SECOND_MS };

/** Bytes. */
const LOG = 64 * 2 ** 20;
const DISK = 256 * 2 ** 20;

export interface Disk {
  logBytes: number;
  freeBytes: number;
}

export function alarmsOf(facts: Facts, disk: Disk | null): Alarm[] {
  const alarms = [
    ...ofProcesses(facts),
    ...ofDeliveries(facts),
    ...ofHistory(facts),
    ...facts.handlers.flatMap((handler) => ofHandler(handler, facts)),
  ];
  const isRefusedByStore = causeOf(facts) === 'store' && alarms.some(({ name }) => name === 'deliveries_refused');
  if (facts.conflictAt !== null && facts.at - facts.conflictAt < 24 * HOUR_MS)
    alarms.push(
      alarm(
        'conflict',
        'critical',
        'Events contradict stored ones, for example after the service was restored: npx kit quarantine',
      ),
    );
  if (disk && disk.logBytes > LOG)
    alarms.push(
      alarm(
        'log_large',
        'warning',
        `The store's log has ${Math.round(disk.logBytes / 2 ** 20)} MiB: another program reads the store for long. End it`,
      ),
    );
  if (disk && disk.freeBytes < DISK && !isRefusedByStore)
    alarms.push(
      alarm(
        'disk_full',
        'critical',
        `The disk has ${Math.round(disk.freeBytes / 2 ** 20)} MiB left. Make room, or lower RETENTION_DAYS`,
      ),
    );
  return alarms;
}

const alarm = (name: string, level: Alarm['level'], text: string, about = ''): Alarm => ({ name, about, level, text });

/** Work that is due waits because its process is down. */
function ofProcesses(facts: Facts): Alarm[] {
  const { processes } = kitOf(facts);
  const waits = facts.handlers.some(({ dueSince }) => dueSince !== null && facts.at - dueSince > LATE_MS.process);
  if (processes.run === 'up' || !waits) return [];
  return [alarm('process_down', 'critical', processes.receive === 'up' ? RUN_DOWN : NOT_RUNNING)];
}

function ofDeliveries(facts: Facts): Alarm[] {
  const failures = failuresOf(facts);
  if (failures < FAILURES.warning) return [];
  const off =
    failures >= FAILURES.off ? ' The service has switched the webhook off by now: enable it there afterwards.' : '';
  const level = failures >= FAILURES.critical ? 'critical' : 'warning';
  return [alarm('deliveries_refused', level, `${refusedWords(facts)}${off}`)];
}

function ofHistory(facts: Facts): Alarm[] {
  const { state, reason, lastAt } = reconcileOf(facts);
  const found: Alarm[] = [];
  if (state === 'stopped')
    found.push(
      alarm(
        'replay_stopped',
        'critical',
        `History is not read: ${reason ?? 'the service refuses it'}. Then npx kit reconcile`,
      ),
    );
  else if (state === 'backing-off' && facts.at - (lastAt ?? 0) > LATE_MS.strict)
    found.push(
      alarm(
        'replay_behind',
        'warning',
        `History was ${lastAt === null ? 'never read' : `last read ${duration(facts.at - lastAt)} ago`}: ${reason ?? 'the service fails'}. It is tried again`,
      ),
    );
  else found.push(...ofHeld(facts));
  if (facts.gaps > 0)
    found.push(
      alarm(
        'gap',
        'critical',
        `${count(facts.gaps, 'stretch', 'stretches')} of history cannot be fetched any more: npx kit reconcile`,
      ),
    );
  if (isSilent(facts))
    found.push(
      alarm(
        'webhook_silent',
        'critical',
        'Events come by replay and none by webhook: the webhook is off or unreachable. See it at the service',
      ),
    );
  return found;
}

/** Strict tasks wait for what replay does not show. */
function ofHeld({ handlers, at }: Facts): Alarm[] {
  const { name, heldSince = null } = handlers.toSorted((a, b) => (a.heldSince ?? at) - (b.heldSince ?? at))[0] ?? {};
  if (heldSince === null || at - heldSince <= LATE_MS.strict) return [];
  const words = `${name} has waited ${duration(at - heldSince)} for replay to show an event that a webhook brought`;
  return [alarm('replay_behind', 'warning', `${words}: npx kit tasks --handler ${name} --state waiting`)];
}

/** Replay brings events that webhooks should have brought. */
function isSilent({ state, at }: Facts): boolean {
  const accepted = Number(state['last_accepted_at'] ?? 0);
  const recovered = (state['reconcile'] as { recoveredAt?: number | null } | undefined)?.recoveredAt ?? 0;
  return recovered - accepted > 2 * MINUTE_MS && at - recovered < HOUR_MS;
}

function ofHandler(handler: HandlerFacts, facts: Facts): Alarm[] {
  const { at } = facts;
  const { name, state, fault, failing, dueSince, paused } = handler;
  if (state === 'broken')
    return [
      alarm('handler_broken', 'critical', `${name} cannot work: ${fault}. Correct the file, then send SIGHUP`, name),
    ];
  if (state === 'missing')
    return [
      alarm(
        'handler_missing',
        'warning',
        `${name} has no file any more, and holds pruning back. Put it back, or npx kit handlers --forget ${name}`,
        name,
      ),
    ];
  if (failing && at - failing.since > LATE_MS.waiting)
    return [
      alarm(
        'handler_failing',
        'warning',
        `${failureOf(name, failing, at)}: npx kit tasks --handler ${name} --state waiting`,
        name,
      ),
    ];
  if (!paused && kitOf(facts).processes.run === 'up' && dueSince !== null && at - dueSince > LATE_MS.waiting)
    return [
      alarm(
        'handler_stuck',
        'warning',
        `${name} has had work due for ${duration(at - dueSince)}. It may hang, or be too slow: npx kit handlers`,
        name,
      ),
    ];
  return [];
}
