// What the facts mean: the headline and the alarms. Pure, so that the page, the API, the commands and metrics agree.
import type { Alarm, Facts, HandlerFacts } from './store/read.ts';

export interface Headline {
  level: 'ok' | 'busy' | 'warning' | 'critical';
  text: string;
}

export interface Reconcile {
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  lastAt: number | null;
  reason: string | null;
  recovered: number;
  /** In the present pass. */
  fetched?: number;
}

interface Kit {
  at: number;
  version: string;
  processes: Record<'receive' | 'run' | 'keep', 'up' | 'down'>;
}

const DOWN_MS = 10_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The service switches the webhook off at 15 (contract 3.2). */
const FAILURES = { warning: 3, critical: 10, off: 15 };
const LATE_MS = { waiting: 5 * MINUTE_MS, strict: 5 * MINUTE_MS };
const BEHIND = 1_000;
/** Bytes. */
const LOG = 64 * 2 ** 20;
const DISK = 256 * 2 ** 20;

export interface Disk {
  logBytes: number;
  freeBytes: number;
}

const DOWN: Kit['processes'] = { receive: 'down', run: 'down', keep: 'down' };

export function kitOf({ state, at }: Facts): Kit {
  const kit = (state['kit'] ?? { at: 0, version: '', processes: DOWN }) as Kit;
  return at - kit.at > DOWN_MS ? { ...kit, processes: DOWN } : kit;
}

export function reconcileOf({ state }: Facts): Reconcile {
  return (state['reconcile'] ?? { state: 'off', lastAt: null, reason: null, recovered: 0 }) as Reconcile;
}

export const failuresOf = ({ state }: Facts): number => Number(state['failures_in_a_row'] ?? 0);

export const refusedIn = ({ counters }: Facts): number =>
  Object.entries(counters).reduce((sum, [name, n]) => sum + (name.startsWith('refused.') ? n : 0), 0);

export const totalOf = (facts: Facts, name: 'waiting' | 'done' | 'skipped' | 'dead' | 'failed'): number =>
  facts.handlers.reduce((sum, handler) => sum + handler[name], 0);

/** Events that the handler furthest behind has not taken up. */
export function behindOf({ handlers, newest }: Facts): number {
  return Math.max(0, ...handlers.flatMap(({ state, position }) => (state === 'loaded' ? newest - position : [])));
}

export function handlerState({
  state,
  paused,
  failing,
}: HandlerFacts): 'running' | 'paused' | 'failing' | 'broken' | 'missing' {
  if (state !== 'loaded') return state;
  if (paused) return 'paused';
  return failing ? 'failing' : 'running';
}

/** Like "3 min". */
export function duration(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.round(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.round(ms / MINUTE_MS)} min`;
  return ms < 48 * HOUR_MS ? `${Math.round(ms / HOUR_MS)} h` : `${Math.round(ms / (24 * HOUR_MS))} days`;
}

const count = (n: number, one: string, many = `${one}s`): string => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

const REFUSED: Record<string, string> = {
  bad_signature: 'none of our secrets has signed them. Compare WEBHOOK_SECRET with the service, then send SIGHUP',
  clock_skew: 'the clock of this machine is wrong. Synchronise it',
  store: 'the store cannot be written. See the disk: df -h',
  no_room: 'too many large bodies come at once. Let the proxy limit them',
  body_limit: 'a body is above BODY_LIMIT_BYTES. Raise it: the service may send 12 MiB',
  content_encoding: 'their bodies are compressed. Let the proxy pass them as they come',
};

/** Every rule: what stands now, each with its remedy. One fault raises one alarm. */
export function alarmsOf(facts: Facts, disk: Disk | null): Alarm[] {
  const alarms = [
    ...ofDeliveries(facts),
    ...ofHistory(facts),
    ...facts.handlers.flatMap((handler) => ofHandler(handler, facts)),
  ];
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
  if (disk && disk.freeBytes < DISK)
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

function ofDeliveries(facts: Facts): Alarm[] {
  const failures = failuresOf(facts);
  if (failures < FAILURES.warning) return [];
  const { cause = '' } = (facts.state['last_refused'] ?? {}) as { cause?: string };
  const why = REFUSED[cause] ?? `the cause is ${cause}`;
  const off =
    failures >= FAILURES.off ? ' The service has switched the webhook off by now: enable it there afterwards.' : '';
  const level = failures >= FAILURES.critical ? 'critical' : 'warning';
  return [alarm('deliveries_refused', level, `Deliveries are being refused, ${failures} in a row: ${why}.${off}`)];
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
  else if (state === 'backing-off' && lastAt !== null && facts.at - lastAt > LATE_MS.strict)
    found.push(
      alarm(
        'replay_behind',
        'warning',
        `History was last read ${duration(facts.at - lastAt)} ago: ${reason ?? 'the service fails'}. It is tried again`,
      ),
    );
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

/** Replay brings events that webhooks should have brought. */
function isSilent({ state, at }: Facts): boolean {
  const accepted = Number(state['last_accepted_at'] ?? 0);
  const recovered = (state['reconcile'] as { recoveredAt?: number | null } | undefined)?.recoveredAt ?? 0;
  return recovered - accepted > 2 * MINUTE_MS && at - recovered < HOUR_MS;
}

function ofHandler(handler: HandlerFacts, { at }: Facts): Alarm[] {
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
  if (!paused && dueSince !== null && at - dueSince > LATE_MS.waiting)
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

const failureOf = (name: string, { lanes, since }: { lanes: number; since: number }, at: number): string =>
  `${name} fails for ${count(lanes, 'conversation')} since ${duration(at - since)}`;

/** The one sentence that a person reads first. It names the thing. */
export function headlineOf(facts: Facts, alarms: Alarm[]): Headline {
  const { processes } = kitOf(facts);
  if (processes.receive === 'down') return { level: 'critical', text: 'The kit is not running: npm start' };
  const [worst] = alarms.toSorted((a, b) => Number(b.level === 'critical') - Number(a.level === 'critical'));
  if (worst) return { level: worst.level, text: worst.text };
  const failing = facts.handlers.find((handler) => handler.failing);
  if (failing?.failing) return { level: 'warning', text: failureOf(failing.name, failing.failing, facts.at) };
  const reconcile = reconcileOf(facts);
  if (reconcile.state === 'running' && (reconcile.fetched ?? 0) > BEHIND)
    return { level: 'busy', text: `Catching up: ${count(reconcile.fetched ?? 0, 'event')} fetched` };
  const behind = behindOf(facts);
  if (behind > BEHIND) return { level: 'busy', text: `Handlers have ${count(behind, 'event')} still to take up` };
  if (reconcile.state === 'backing-off')
    return { level: 'busy', text: `History waits to be read: ${reconcile.reason ?? 'the service fails'}` };
  const [rerun] = facts.reruns;
  if (rerun)
    return { level: 'busy', text: `Handing ${rerun.handler} its events again: ${count(rerun.tasks, 'task')} so far` };
  const waiting = totalOf(facts, 'waiting');
  const history = reconcile.state === 'off' ? '; history is not read: API_KEY is not set' : '';
  return { level: 'ok', text: `Deliveries are taken and handled: ${count(waiting, 'task')} at work${history}` };
}
