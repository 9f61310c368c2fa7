// What must hold after all troubles: nothing lost, nothing twice, and order in each lane.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ran, send } from '../../postgres/members.ts';
import type { Row } from '../report.ts';
import type { Scene } from './scene.ts';
import type { Trouble } from './trouble.ts';

/** Without trouble, more tasks must have ended after this time. */
const PATIENCE_MS = 60_000;
const TELL_MS = 10_000;
/** An attempt that ended so shortly before a trouble may not have been settled. */
const UNSETTLED_MS = 2_000;
/** The violations of one kind that are told. */
const TOLD = 5;

interface Seen {
  cursor: number;
  lane: string;
  late: boolean;
}

export async function judge(
  { cluster }: Scene,
  load: ReturnType<typeof send>,
  troubles: Trouble[],
  progress: (line: string) => void,
): Promise<Row[]> {
  const number = async (sql: string): Promise<number> => Number((await cluster.rows<{ n: string }>(sql))[0]?.n ?? 0);
  const tasks = (): Promise<number> => number(`select count(*) as n from kit.tasks where state = 'done'`);
  const events = await number('select count(*) as n from kit.events');
  const inTime: string[] = [];
  let [done, doneAt, toldAt] = [-1, 0, 0];
  for (let now = performance.now(); done < 2 * events && inTime.length === 0; now = performance.now()) {
    const before = done;
    done = await tasks();
    if (done > before) doneAt = now;
    else if (now - doneAt > PATIENCE_MS) inTime.push(`only ${done} of ${2 * events} tasks end`);
    if (now - toldAt > TELL_MS) progress(`${done} of ${2 * events} tasks have ended`);
    if (now - toldAt > TELL_MS) toldAt = now;
    await sleep(100);
  }
  const stored = (await cluster.rows<{ cursor: string }>('select cursor from kit.events')).map((one) =>
    Number(one.cursor),
  );
  const rows = await cluster.rows<{ cursor: string; lane: string; late: number }>('select * from seen order by n');
  const seen = rows.map((one): Seen => ({ ...one, cursor: Number(one.cursor), late: one.late === 1 }));
  const completed = seen.map(({ cursor }) => cursor);
  const acknowledged = [...load.acknowledged];
  return [
    {
      what: 'troubles',
      seen: [...Map.groupBy(troubles, ({ kind }) => kind)].map(([kind, some]) => `${some.length} × ${kind}`).join(', '),
      violations: troubles.length === 0 ? ['there was none'] : [],
    },
    rowOf('acknowledged deliveries that are lost', acknowledged, without(acknowledged, stored)),
    rowOf('events with two rows', stored, repeated(stored)),
    rowOf('tasks that never end', stored, [...inTime, ...without(stored, completed)]),
    rowOf('events completed twice', completed, repeated(completed)),
    rowOf('attempts repeated without need', cluster.ran(), repeatedAttempts(cluster.ran(), troubles)),
    rowOf('events out of order, and not marked late', seen, outOfOrder(seen)),
  ];
}

function rowOf(what: string, compared: unknown[], violations: (string | number)[]): Row {
  const told = violations.slice(0, TOLD).map(String);
  if (violations.length > TOLD) told.push(`and ${violations.length - TOLD} more`);
  if (compared.length === 0) told.push('there is nothing to compare');
  return { what, seen: `${violations.length} of ${compared.length}`, violations: told };
}

function without(all: number[], those: number[]): number[] {
  const known = new Set(those);
  return all.filter((one) => !known.has(one));
}

function repeated(all: number[]): number[] {
  return [...Map.groupBy(all, (one) => one)].flatMap(([one, some]) => (some.length > 1 ? [one] : []));
}

/** An event may be attempted again only if its instance was in trouble during the attempt before, or right after it. */
function repeatedAttempts(ran: Ran[], troubles: Trouble[]): string[] {
  const violations: string[] = [];
  for (const [cursor, notes] of Map.groupBy(ran, (one) => one.cursor)) {
    const begun = notes.filter(({ what }) => what === 'begin');
    for (const attempt of begun.slice(0, -1)) {
      const ends = notes.find(
        ({ what, instance, at }) => what === 'end' && instance === attempt.instance && at >= attempt.at,
      );
      const settledAt = (ends?.at ?? Infinity) + UNSETTLED_MS;
      const excused = troubles.some(
        ({ main, from, to }) => main === attempt.instance && from <= settledAt && to >= attempt.at,
      );
      if (!excused)
        violations.push(`${cursor} of instance ${attempt.instance} at ${new Date(attempt.at).toISOString()}`);
    }
  }
  return violations;
}

function outOfOrder(seen: Seen[]): string[] {
  return [...Map.groupBy(seen, ({ lane }) => lane).values()].flatMap((lane) => {
    let highest = 0;
    return lane.flatMap(({ cursor, late }) => {
      const isBehind = cursor < highest;
      highest = Math.max(highest, cursor);
      return isBehind && !late ? [`${cursor} after ${highest}`] : [];
    });
  });
}
