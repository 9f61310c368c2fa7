// Decides which alarms are raised now, and names the remedy of each. Pure functions. One fault raises one alarm.
import { commandOf, type Remedy } from './define.ts';
import {
  backupOf,
  causeOf,
  count,
  DAY_MS,
  duration,
  failureOf,
  failuresOf,
  NOT_RUNNING,
  processesOf,
  reconcileOf,
  refusedWords,
  sinceOf,
  RUN_DOWN,
  silentMs,
} from './judge.ts';
import type { Alarm, Disk, Facts, HandlerFacts } from './store/shapes.ts';

/** Failed deliveries in a row. At 15 the service switches the webhook off (contract 3.2). */
const FAILURES = { warning: 3, critical: 10, off: 15 };
const LATE_MS = { waiting: 300_000, strict: 300_000, process: 30_000, silent: 120_000 };

/** Bytes. A larger WAL file raises an alarm, and so does less free space on the disk. */
const LOG = 64 * 2 ** 20;
const DISK = { warning: 256 * 2 ** 20, critical: 64 * 2 ** 20 };
const FULL = 'Once full, it refuses deliveries. Delete other files, then turn on kit and webhook if they are off';
const CLOSE = "Take what you need from the service's lists, then close the gap";

/** An alarm with the operation that helps. Null: none does. */
export type Told = Alarm & { remedy: Remedy | null };

export function alarmsOf(facts: Facts, disk: Disk): Told[] {
  const isFull = disk.freeBytes < DISK.critical;
  return [
    ...ofProcesses(facts, isFull),
    ...(isFull && causeOf(facts) === 'store' ? [] : ofDeliveries(facts)),
    ...ofHistory(facts),
    ...facts.handlers.flatMap((handler) => ofHandler(handler, facts)),
    ...ofStore(facts, disk),
  ];
}

/** The text ends with the remedy as a command. */
function alarm(name: string, level: Alarm['level'], text: string, remedy: Remedy | null = null, about = ''): Told {
  return { name, about, level, text: remedy ? `${text}: ${commandOf(remedy)}` : text, remedy };
}

const does = (operation: string, args: Remedy['args'] = {}): Remedy => ({ operation, args });
const mib = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

/** `run` is down, and work has been due for 30 s. On a full disk the kit cannot store that it runs: it looks down. */
function ofProcesses(facts: Facts, isFull: boolean): Told[] {
  const processes = processesOf(facts);
  if (facts.at - sinceOf(facts) < LATE_MS.process || (isFull && processes.receive === 'down')) return [];
  const waits = facts.handlers.some(({ dueSince }) => dueSince !== null && facts.at - dueSince > LATE_MS.process);
  if (processes.run === 'up' || !waits) return [];
  return [alarm('process_down', 'critical', processes.receive === 'up' ? RUN_DOWN : NOT_RUNNING)];
}

function ofDeliveries(facts: Facts): Told[] {
  const failures = failuresOf(facts);
  if (failures < FAILURES.warning) return [];
  const off =
    failures >= FAILURES.off
      ? ' If the service sent them, it has switched the webhook off: enable it at the service once this is corrected.'
      : '';
  const level = failures >= FAILURES.critical ? 'critical' : 'warning';
  return [alarm('deliveries_refused', level, `${refusedWords(facts)}${off}`)];
}

function ofHistory(facts: Facts): Told[] {
  const { state, reason, lastAt } = reconcileOf(facts);
  const found: Told[] = [];
  if (state === 'stopped') {
    const words = `History is not read: ${reason ?? 'the service refuses it'}. Correct the cause and send SIGHUP, or try again`;
    found.push(alarm('replay_stopped', 'critical', words, does('reconcile')));
  } else if (state === 'backing-off' && facts.at - (lastAt ?? 0) > LATE_MS.strict) {
    const when = lastAt === null ? 'never read' : `last read ${duration(facts.at - lastAt)} ago`;
    const words = `History was ${when}: ${reason ?? 'the service fails'}. The kit tries again by itself`;
    found.push(alarm('replay_behind', 'warning', words));
  } else found.push(...ofHeld(facts));
  const [gap] = facts.gaps;
  if (gap) {
    const end = gap.upTo === null ? '. The next event will show where the gap ends' : ` up to ${gap.upTo}. ${CLOSE}`;
    const words = `${count(facts.gaps.length, 'gap')}: the service no longer has the events after cursor ${gap.after}${end}`;
    found.push(alarm('gap', 'critical', words, gap.upTo === null ? null : does('reconcile', { from: gap.after })));
  }
  if (silentMs(facts, sinceOf(facts)) > LATE_MS.silent && failuresOf(facts) === 0) {
    const words =
      'Events come only by replay: the webhook is off or unreachable. Enable it at the service, or check the proxy';
    found.push(alarm('webhook_silent', 'critical', words));
  }
  return found;
}

/** A strict task has waited over five minutes for replay to show its event. */
function ofHeld({ handlers, at }: Facts): Told[] {
  const { name, heldSince = null } = handlers.toSorted((a, b) => (a.heldSince ?? at) - (b.heldSince ?? at))[0] ?? {};
  if (name === undefined || heldSince === null || at - heldSince <= LATE_MS.strict) return [];
  const words = `${name} has waited ${duration(at - heldSince)} for replay to show an event that a webhook brought`;
  return [alarm('replay_behind', 'warning', words, does('tasks', { handler: name, state: 'waiting' }))];
}

function ofHandler(handler: HandlerFacts, facts: Facts): Told[] {
  const { at } = facts;
  const { name, state, fault, failing, dueSince, paused } = handler;
  if (state === 'broken') {
    const words = `${name} cannot work: ${fault}. Correct the file, then send SIGHUP`;
    return [alarm('handler_broken', 'critical', words, null, name)];
  }
  if (state === 'missing') {
    const words = `No running kit has a file for ${name}, and pruning waits for it. Put the file back, or delete the handler`;
    return [alarm('handler_broken', 'warning', words, does('handlers', { forget: name }), name)];
  }
  const isYoung = failing !== null && at - failing.since < LATE_MS.waiting;
  const failure = failureOf(isYoung ? { ...handler, failing: null } : handler, at);
  if (failure !== null)
    return [alarm('handler_failing', 'warning', failure, does('tasks', { handler: name, causes: true }), name)];
  if (!paused && processesOf(facts).run === 'up' && dueSince !== null && at - dueSince > LATE_MS.waiting) {
    const words = `${name} has had work due for ${duration(at - dueSince)}. It may hang, or be too slow`;
    return [alarm('handler_stuck', 'warning', words, does('tasks', { handler: name, state: 'waiting' }), name)];
  }
  return [];
}

function ofStore(facts: Facts, disk: Disk): Told[] {
  const found: Told[] = [];
  const { at, conflictAt } = facts;
  if (conflictAt !== null && at - conflictAt < DAY_MS) {
    const words = 'Events contradict stored ones, for example because the service was restored';
    found.push(alarm('conflict', 'critical', words, does('quarantine')));
  }
  const backup = backupOf(facts);
  if (backup && at - backup.at > 2 * DAY_MS) {
    const words = `No backup was made for two days: ${backup.error ?? 'the kit was down'}`;
    found.push(alarm('backup_failed', 'warning', words, does('backup')));
  }
  if (disk.logBytes > LOG) {
    const words = `The store's WAL file has ${mib(disk.logBytes)}: another program has been reading the store for a long time. End that program`;
    found.push(alarm('log_large', 'warning', words));
  }
  if (disk.freeBytes < DISK.warning) {
    const level = disk.freeBytes < DISK.critical ? 'critical' : 'warning';
    const [refused] = level === 'critical' && causeOf(facts) === 'store' ? ofDeliveries(facts) : [];
    const words = `The disk of ${disk.folder} has ${mib(disk.freeBytes)} left. ${refused?.text ?? FULL}`;
    found.push(alarm('disk_full', level, words));
  }
  return found;
}
