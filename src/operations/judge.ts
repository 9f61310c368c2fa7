// What the facts mean, and the headline. Pure functions, so that the page, the API, the commands and metrics agree.
import type { Reconcile } from '../reconcile/reconciler.ts';
import type { Alarm, Facts, HandlerFacts } from './store/shapes.ts';

export interface Headline {
  level: 'ok' | 'busy' | 'warning' | 'critical';
  text: string;
}

type Processes = Record<'receive' | 'run' | 'keep', 'up' | 'down'>;

const DOWN_MS = 10_000;
export const SECOND_MS = 1_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
const BEHIND = 1_000;
export const NOT_RUNNING = 'The kit is not running: npm start';
export const RUN_DOWN = 'No handler works: the process "run" is down. It starts by itself; if it does not, see the log';
const STARTING = 'The kit has just started or reloaded: it takes deliveries, and its handlers begin in a moment';
const KEEP_DOWN = 'No history is read: the process "keep" is down. It starts by itself; if it does not, see the log';
const RESTORED = 'A backup was restored: repeat the erasures and pauses that came after it. ';
const DOWN: Processes = { receive: 'down', run: 'down', keep: 'down' };

export function processesOf({ state, at }: Facts): Processes {
  const kit = state['kit'] as { at: number; processes: Processes } | undefined;
  return kit && at - kit.at <= DOWN_MS ? kit.processes : DOWN;
}

export function reconcileOf({ state }: Facts): Reconcile {
  return (state['reconcile'] ?? { state: 'off', lastAt: null, reason: null, recovered: 0 }) as Reconcile;
}

/** `at`: when the newest backup was begun; before any, the first failure. `error`: of the last try. Null: it succeeded. */
export type BackupState = { at: number; error: string | null };

/** Null: BACKUP_DIR is not set, or no backup was tried yet. */
export const backupOf = ({ state }: Facts): BackupState | null => (state['backup'] ?? null) as BackupState | null;

export const failuresOf = ({ state }: Facts): number => Number(state['failures_in_a_row'] ?? 0);

export const refusedIn = ({ state }: Facts): number =>
  Object.entries(state).reduce((sum, [name, n]) => sum + (name.startsWith('refused.') ? Number(n) : 0), 0);

export const totalOf = (facts: Facts, name: 'waiting' | 'done' | 'skipped' | 'dead' | 'failed'): number =>
  facts.handlers.reduce((sum, handler) => sum + handler[name], 0);

/** How many events the handler that is furthest behind has not taken up. */
export function behindOf({ handlers }: Facts): number {
  return Math.max(0, ...handlers.flatMap(({ state, behind }) => (state === 'loaded' ? behind : [])));
}

export function handlerState(handler: HandlerFacts): 'running' | 'paused' | 'failing' | 'broken' | 'missing' {
  if (handler.state !== 'loaded') return handler.state;
  if (handler.paused) return 'paused';
  return failureOf(handler, 0) === null ? 'running' : 'failing';
}

/** Like "3 min". */
export function duration(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.round(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.round(ms / MINUTE_MS)} min`;
  return ms < 2 * DAY_MS ? `${Math.round(ms / HOUR_MS)} h` : `${Math.round(ms / DAY_MS)} days`;
}

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

const REFUSED: Record<string, string> = {
  bad_signature: "no secret of WEBHOOK_SECRET has signed them. Set it to the service's secret, then send SIGHUP",
  clock_skew: "their time is far from this machine's clock. Check the clock: timedatectl",
  store: 'the store cannot be written. Check the disk (df -h), or the PostgreSQL server',
  no_room: 'too many large bodies come at once. Let the proxy limit them',
  body_limit: 'a body is above BODY_LIMIT_BYTES. Raise it and restart: the service may send 12 MiB',
  content_encoding: 'their bodies are compressed. Let the proxy pass them unchanged',
  body_stalled: 'their bodies do not arrive whole. Check the proxy and the network',
};

const lastRefused = ({ state }: Facts) => (state['last_refused'] ?? {}) as { cause?: string; at?: number };
/** When the kit was started or reloaded. */
export const sinceOf = ({ state }: Facts): number => Number(state['since'] ?? 0);

export const causeOf = (facts: Facts): string => lastRefused(facts).cause ?? '';

export function refusedWords(facts: Facts): string {
  const { cause = '', at = facts.at } = lastRefused(facts);
  const [why, n] = [REFUSED[cause] ?? `the cause is ${cause}`, count(failuresOf(facts), 'delivery', 'deliveries')];
  if (at < sinceOf(facts)) return `Before the start or reload, ${n} in a row were refused: ${why.split('. ')[0]}.`;
  if (facts.at - at > 10 * SECOND_MS)
    return `Refused in a row: ${n}, the last one ${duration(facts.at - at)} ago: ${why}.`;
  return `Deliveries are being refused, ${failuresOf(facts)} in a row: ${why}.`;
}

/** For how long, up to an event of the last hour that only replay has brought, no webhook had come since `from`. */
export function silentMs(facts: Facts, from = 0): number {
  const { recoveredAt } = reconcileOf(facts);
  const isRecent = recoveredAt && facts.at - recoveredAt < HOUR_MS;
  return isRecent ? recoveredAt - Math.max(from, Number(facts.state['last_accepted_at'] ?? 0)) : 0;
}

/**
 * Says that tasks fail now; or that of recent tasks at least three, and at least a tenth, are dead. Null: neither.
 * Their errors are left out, because they may quote a sender's text, and alarms are posted.
 */
export function failureOf(
  { name, failing, dead: all, recent: { ended, dead } }: HandlerFacts,
  at: number,
): string | null {
  const lanes = failing?.lanes ? `, in ${count(failing.lanes, 'lane')}` : '';
  if (failing) return `${name} has failed for ${duration(at - failing.since)}${lanes}`;
  if (dead < 3 || dead * 10 < ended) return null;
  return `${name} gives tasks up: it has ${count(all, 'dead letter')}`;
}

const suspectWords = ({ name, suspects }: HandlerFacts): string =>
  `A process crashed or looped while it ran ${count(suspects, 'task')} of ${name}. Each runs again alone: see the log`;

/** The one sentence that a person reads first. */
export function headlineOf(facts: Facts, alarms: Alarm[]): Headline {
  const processes = processesOf(facts);
  // While the disk is full, the kit cannot store that it runs.
  const full = alarms.find(({ name, level }) => name === 'disk_full' && level === 'critical');
  if (processes.receive === 'down' && !full) return { level: 'critical', text: NOT_RUNNING };
  const worst = full ?? alarms.find(({ level }) => level === 'critical') ?? alarms[0];
  if (worst) return { level: worst.level, text: worst.text };
  if (failuresOf(facts) > 0) return { level: 'warning', text: refusedWords(facts) };
  const down = processes.run === 'down' ? RUN_DOWN : processes.keep === 'down' && KEEP_DOWN;
  if (down) return { level: 'busy', text: facts.at - sinceOf(facts) < DOWN_MS ? STARTING : down };
  const [failing] = facts.handlers.flatMap((handler) => failureOf(handler, facts.at) ?? []);
  if (failing !== undefined) return { level: 'warning', text: `${failing}: npx kit tasks --causes` };
  const killer = facts.handlers.find(({ suspects }) => suspects > 0);
  if (killer) return { level: 'warning', text: suspectWords(killer) };
  const { level, text } = busyWith(facts) ?? { level: 'ok', text: wellWords(facts) };
  const isRestored = facts.at - Number(facts.state['restored_at'] ?? -Infinity) < HOUR_MS;
  return isRestored ? { level: 'busy', text: `${RESTORED}${text}` } : { level, text };
}

/** Whether history was read to its end since the start, a reload or a restore. */
export function isRead(facts: Facts): boolean {
  const { state, lastAt } = reconcileOf(facts);
  return state === 'off' || (lastAt ?? 0) >= Math.max(sinceOf(facts), Number(facts.state['restored_at'] ?? 0));
}

/** What the kit does besides taking deliveries, or what waits for a person. Null: nothing. */
function busyWith(facts: Facts): Headline | null {
  const busy = (text: string): Headline => ({ level: 'busy', text });
  const reconcile = reconcileOf(facts);
  if (reconcile.state === 'running' && reconcile.fetched)
    return busy(`Catching up: ${count(reconcile.fetched, 'event')} fetched`);
  if (silentMs(facts) > 0)
    return busy('The newest events came by replay, and no webhook since: enable it if it is off');
  const behind = behindOf(facts);
  if (behind > BEHIND) return busy(`A handler still has ${count(behind, 'event')} to take up`);
  if (reconcile.state === 'backing-off')
    return busy(`History cannot be read for now: ${reconcile.reason ?? 'the service fails'}`);
  const paused = facts.handlers.find((handler) => handler.paused && handler.waiting > 0);
  if (paused)
    return busy(
      `${paused.name} is paused, with ${count(paused.waiting, 'waiting task')}: npx kit resume ${paused.name}`,
    );
  const [rerun] = facts.reruns;
  const what = rerun?.only === 'dead' ? 'retries its dead letters' : 'gets its events again';
  if (rerun) return busy(`${rerun.handler} ${what}: ${count(rerun.tasks, 'task')} so far`);
  return isRead(facts) ? null : busy('History has not been read since the start or reload: it may bring more events');
}

function wellWords(facts: Facts): string {
  const waiting = totalOf(facts, 'waiting');
  const history = reconcileOf(facts).state === 'off' ? '; history is not read: API_KEY is not set' : '';
  const work = waiting > 0 ? `${count(waiting, 'task')} waiting or running` : 'nothing waits';
  const dead = totalOf(facts, 'dead');
  const letters = dead > 0 ? `, ${count(dead, 'dead letter')}` : '';
  return `Deliveries are taken and handled: ${work}${letters}${history}`;
}
