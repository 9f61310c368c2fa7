// Alarms about handlers whose tasks fail, wait, or run in the wrong lane.
import { iso } from '../../base/clock.ts';
import { handlersWith, isPaused, recently, type Observation } from './observation.ts';
import { magnitude, type Rules } from './rule.ts';

/** Failed attempts raise `handler_failing` only if the oldest ready task has waited this long. */
const STUCK_SECONDS = 300;
/** After a start of `run`, a handler fails if at least so many of its attempts have failed, and half of all. */
const BROKEN = { least: 5, share: 0.5 };
/** Over half an hour, a handler fails at this share of its attempts; in each third, at half the share. */
const LONG = { least: 10, share: 0.02 };

const PAUSED_MS = 86_400_000;

export const HANDLERS: Rules<Observation> = {
  dead_letters: {
    gravity: 'warning',
    remedy: 'npx kit tasks --state dead --groups; fix the handler, npx kit reload, then retry or discard them.',
    page: '/dead-letters',
    fires: ({ status }) => status.tasks.dead > 0,
    level: ({ status }) => magnitude(status.tasks.dead),
    news: ({ cause }) => cause?.id ?? 0,
    words: ({ status: { tasks }, cause }) =>
      `${tasks.dead === 1 ? 'a task is a dead letter' : `${tasks.dead} tasks are dead letters`}${cause ? `; newest cause: ${redacted(cause)}` : ''}. See why (npx kit tasks --state dead --groups, or the page, Dead letters), fix the handler, npx kit reload, then retry them (npx kit retry --state dead) or discard them there`,
  },
  // Raised long before the first dead letter, which with the default retries comes only after hours. A wait by
  // `RetryAfter` or `rate` is no failed attempt, so it does not raise this alarm.
  handler_failing: {
    gravity: 'warning',
    remedy:
      'npx kit tasks --state ready --handler NAME, npx kit explain for the error; fix the handler, npx kit reload.',
    page: '/handlers',
    // Once raised, the alarm stays while tasks are stuck, even when retries get too rare to count as recent.
    fires: (seen) =>
      seen.broken.length > 0 ||
      failsByShare(seen).length > 0 ||
      (isStuck(seen) && (failing(seen).length > 0 || wordsBefore(seen) !== undefined)) ||
      (failing(seen).length > 0 && wordsBefore(seen) !== undefined),
    level: (seen) => seen.broken.filter(({ waiting }) => waiting.length > 0).length + failingNow(seen).length,
    words: handlerFailing,
  },
  handler_paused: {
    gravity: 'warning',
    remedy: 'npx kit resume NAME, or npx kit resume --all: until then its tasks wait, in order.',
    page: '/handlers',
    fires: (seen) => longPaused(seen).length > 0,
    level: (seen) => longPaused(seen).length,
    words: (seen) => {
      const words = longPaused(seen).map(([name, { at, reason }]) => {
        const [who, resume] = name === '*' ? ['every handler', '--all'] : [`handler ${name}`, name];
        return `${who} is paused since ${iso(at)}${reason ? ` (${reason})` : ''}: npx kit resume ${resume}`;
      });
      return `${words.join('; ')}. Events are stored meanwhile, and their tasks wait in order`;
    },
  },
  lane_stuck: {
    gravity: 'warning',
    remedy: 'npx kit explain the event that the alarm names; fix the handler, npx kit reload, or discard the task.',
    page: '/handlers',
    fires: ({ stuck }) => stuck.length > 0,
    level: ({ stuck }) => magnitude(stuck.length),
    words: ({ stuck: [first, ...others] }) =>
      `a lane of ${first?.handler} is stuck: its task ${first?.task} on event ${first?.key} fails since ${iso(first?.since ?? null)}, and ${first?.behind} tasks wait behind it${others.length > 0 ? `; so are ${others.length} other lanes` : ''}. npx kit explain ${first?.key} shows the error. Fix the handler, then npx kit reload; or give the task up: npx kit discard ${first?.task} --reason TEXT`,
  },
  lane_fault: {
    gravity: 'warning',
    remedy: 'Fix the lane function of the handler that the log names; until then the session is the lane.',
    page: '/handlers',
    fires: (seen) => handlersWith(seen, 'lane_faults').length > 0,
    level: (seen) => handlersWith(seen, 'lane_faults').length,
    words: (seen) =>
      `lane of ${handlersWith(seen, 'lane_faults').join(', ')} throws; using the session as lane. Fix the function, then npx kit reload; the log has the place`,
  },
};

/** The handler and its error's class, if it is a usual one. Whatever else the error says may quote a delivery. */
function redacted({ handler, error }: NonNullable<Observation['cause']>): string {
  const name = /^((Type|Range|Syntax|Reference|Sqlite|Service|Abort|Timeout)?Error|Timeout): /.exec(error)?.[1];
  return [handler, name].filter(Boolean).join(', ');
}

function handlerFailing(seen: Observation): string {
  // If files cannot be loaded, the text names only them, because no reload succeeds until they are fixed.
  if (seen.broken.length > 0) return seen.broken.map(brokenFile).join('; ');
  const [first, ...others] = failingNow(seen);
  if (first === undefined) return wordsBefore(seen) ?? '';
  const shares = failsByShare(seen).find(({ handler }) => handler === first);
  const why = isStuck(seen) ? ', and tasks wait for more than 5 minutes' : shares ? ` (${shares.words})` : '';
  return `attempts of ${[first, ...others].join(', ')} fail${why}: npx kit tasks --handler ${first} lists its tasks, npx kit explain <key> shows the error. Fix it, then npx kit reload. Tasks that wait are retried by themselves; to retry them at once: npx kit retry --state ready --handler ${first}, and dead letters: --state dead, or the page, Dead letters`;
}

function brokenFile({ fault, waiting }: Observation['broken'][number]): string {
  const goesOn =
    waiting.length > 0
      ? `handler ${waiting.join(', ')} waits, the others go on. Fix the file under its name, then npx kit reload: events that arrive meanwhile are handled then`
      : 'the handlers that were loaded go on. Fix the file, then npx kit reload';
  return `${fault}: ${goesOn}`;
}

/** The pauses that have lasted a day. */
function longPaused({ now, paused }: Observation): [string, Observation['paused'][string]][] {
  return Object.entries(paused).filter(([, { at }]) => now - at >= PAUSED_MS);
}

function isStuck({ status }: Observation): boolean {
  return (status.oldestReadySeconds ?? 0) > STUCK_SECONDS;
}

/** Handlers whose recent attempts failed more often than they succeeded. */
function failing(seen: Observation): string[] {
  return handlersWith(seen, 'attempts.retry').filter(
    (name) =>
      !isPaused(seen, name) &&
      recently(seen, `attempts.retry.${name}`) > easing(seen) * recently(seen, `attempts.done.${name}`),
  );
}

/** Once raised, the alarm stays until fewer attempts fail, so that a share around the limit does not raise it again. */
function easing(seen: Observation): number {
  return wordsBefore(seen) === undefined ? 1 : 0.25;
}

/** Handlers that fail at a share that shows it before tasks wait for long, or although most attempts succeed. */
function failsByShare(seen: Observation): { handler: string; words: string }[] {
  const { sinceBoot, thirds } = seen.attempts;
  const handlers = new Set([sinceBoot, ...thirds].flatMap((growth) => Object.keys(growth).flatMap(handlerOf)));
  return [...handlers].toSorted().flatMap((handler) => {
    if (isPaused(seen, handler)) return [];
    const young = shareOf(handler, sinceBoot);
    if (young.failed >= BROKEN.least && young.failed >= easing(seen) * BROKEN.share * young.all)
      return [{ handler, words: `${young.failed} of ${young.all} since the last start` }];
    const each = thirds.map((growth) => shareOf(handler, growth));
    const [failed, all] = [sum(each.map((one) => one.failed)), sum(each.map((one) => one.all))];
    const steady = each.every((one) => one.failed > 0 && one.failed >= (LONG.share / 2) * one.all);
    return steady && failed >= LONG.least && failed >= LONG.share * all
      ? [{ handler, words: `${failed} of ${all} in half an hour` }]
      : [];
  });
}

function handlerOf(counter: string): string[] {
  const handler = /^attempts\.(?:retry|dead)\.(.+)$/s.exec(counter)?.[1];
  return handler === undefined ? [] : [handler];
}

function shareOf(handler: string, growth: Record<string, number>): { failed: number; all: number } {
  const of = (verdict: string): number => growth[`attempts.${verdict}.${handler}`] ?? 0;
  const failed = of('retry') + of('dead');
  return { failed, all: failed + of('done') + of('skipped') };
}

function sum(values: number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

/** Handlers that the alarm names. */
function failingNow(seen: Observation): string[] {
  return [...new Set([...failing(seen), ...failsByShare(seen).map(({ handler }) => handler)])];
}

function wordsBefore({ status }: Observation): string | undefined {
  return status.alarms.find(({ name }) => name === 'handler_failing')?.detail;
}
