// The timeline of one event, from its first delivery to the end of its tasks. The page and `npx kit explain` show it.
import { iso } from '../base/clock.ts';
import type { ShownAttempt, ShownConflict, ShownDelivery, ShownTask, ReadStore } from '../store/read.ts';

export type Found = NonNullable<Awaited<ReturnType<ReadStore['event']>>>;
export type Moment = ReturnType<typeof moment>;

export const NOT_KEPT =
  'Kept are the first delivery, the first seven duplicates and the last; the last ten attempts of tasks that did not end at the first, and retries by hand among them, with the beginning of their errors. Of what contradicts it the first hundred are shown. What a restart interrupted is not kept.';

/**
 * An event with a cursor has a key `i:…` only if another event came first with the same cursor. Returns the key of the
 * other event, or null.
 */
export function rivalOf({ key, cursor }: Found['event']): string | null {
  return cursor !== null && key.startsWith('i:') ? `c:${cursor}` : null;
}

export function timelineOf({ event, sightings, deliveries, conflicts, tasks, attempts }: Found): Moment[] {
  const handlers = new Map(tasks.map(({ id, handler }) => [id, handler]));
  const byWebhook = event.origin === 'webhook';
  const first = byWebhook ? deliveries[0] : undefined;
  const copies = byWebhook ? deliveries.slice(1) : deliveries;
  const moments = [
    moment(iso(event.receivedAt) ?? '', first ? 'first delivery' : `brought by ${event.origin}`, signedBy(first)),
    ...copies.map((copy, n) => moment(copy.at, nameOf(n + 1, event.copies, copies.length), signedBy(copy))),
    ...sightings.flatMap(({ origin, at }) => (origin === 'webhook' ? [] : [moment(at, `shown by ${origin} as well`)])),
    ...conflicts.map((one) => moment(one.at, `contradicted by ${one.origin}`, contradiction(one))),
    ...attempts.map((one) =>
      one.state === 'retried'
        ? moment(one.startedAt, `${handlers.get(one.task)}: retried by hand`)
        : moment(one.startedAt, attemptOf(handlers.get(one.task), one.attempt), outcome(one), one.error),
    ),
    ...tasks.flatMap((task) => lastOf(task, attempts)),
  ];
  return moments.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

/** `error`: null if nothing failed. */
function moment(at: string, what: string, detail = '', error: string | null = null) {
  return { at, what, detail, error };
}

function nameOf(n: number, of: number, kept: number): string {
  return n === kept && of > kept ? `duplicate ${of}` : `duplicate ${n}`;
}

function signedBy(delivery: ShownDelivery | undefined): string {
  if (delivery?.secret == null) return '';
  const { secret, skewSeconds } = delivery;
  const age = Math.abs(skewSeconds ?? 0);
  return `signed by secret ${secret}, ${age} s ${(skewSeconds ?? 0) < 0 ? 'in the future' : 'before'}`;
}

function contradiction({ id, cursor, reason }: ShownConflict): string {
  return `${reason}: id ${id ?? '-'}, cursor ${cursor ?? '-'}`;
}

function attemptOf(handler: string | undefined, attempt: number): string {
  return `${handler ?? 'a handler'}: attempt ${attempt}`;
}

function outcome({ startedAt, endedAt, state }: ShownAttempt): string {
  const ms = Date.parse(endedAt) - Date.parse(startedAt);
  return `${ms} ms, ${state === 'ready' ? 'failed; will be retried' : state}`;
}

/** Adds the moments that no stored attempt shows: a wait, a running task, an end at the first attempt or by hand. */
function lastOf(task: ShownTask, attempts: ShownAttempt[]): Moment[] {
  const { id, handler, state, startedAt, finishedAt, error } = task;
  const last = attempts.findLast((one) => one.task === id);
  const name = attemptOf(handler, task.attempts);
  if (state === 'running') return [moment(startedAt ?? task.dueAt, name, 'running')];
  if (state === 'ready' || state === 'held') return [moment(task.dueAt, `${handler}: due`, state)];
  if (finishedAt === null || last?.state === state) return [];
  if (startedAt === null || (last && last.startedAt >= startedAt))
    return [moment(finishedAt, `${handler}: ${state}`, '', error)];
  return [moment(startedAt, name, `${Date.parse(finishedAt) - Date.parse(startedAt)} ms, ${state}`, error)];
}

/** Says in which kind of lane the task is, and why. The lane's name is left out: it may hold a phone number. */
export function laneWords({ lane }: Pick<ShownTask, 'lane'>, { key, sessionId, origin }: Found['event']): string {
  if (lane === null) return 'in no lane: it waits for no other';
  if (lane === key) return 'in a lane of its own: it waits for the proof of replay alone';
  if (lane === '' && sessionId === null) return "in the account's lane: it names no session";
  if (lane === '')
    return `in the account's lane: its data name no session, and ${origin === 'webhook' ? 'strict order uses nothing else' : `${origin}, which brought it, shows nothing else`}`;
  if (lane === sessionId) return "in its session's lane";
  if (sessionId !== null && lane.startsWith(`${sessionId}/`)) return "in its conversation's lane";
  if (lane.startsWith('/')) return "in its conversation's lane, of no session that its data name";
  return 'in the lane that the handler names';
}
