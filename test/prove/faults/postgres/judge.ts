// The checks that follow every fault of a PostgreSQL store: those of `judge` in ../scene.ts, and the times of the answers.
import type { Cluster, send } from '../../../postgres/members.ts';
import { until } from '../../../system/kit.ts';

type Load = ReturnType<typeof send>;

/** The limit for completing all events after a fault. */
const DONE_MS = 60_000;
/** A delivery waits for 8 s for its commit, and the service for 10 s for the answer. */
const [PATIENCE_MS, LIMIT_MS] = [7_900, 10_000];

export function judgeAnswers(answers: Load['answers'], allowed: number[]): string[] {
  const violations: string[] = [];
  for (const [status, of] of Map.groupBy(answers, (one) => one.status))
    if (status !== 204 && !allowed.includes(status)) violations.push(`${of.length} × ${status || 'no answer'}`);
  const early = answers.filter(({ status, ms }) => status === 503 && ms < PATIENCE_MS);
  if (early.length > 0)
    violations.push(`${early.length} × 503 before 8 s, the first after ${Math.round(early[0]?.ms ?? 0)} ms`);
  const late = answers.filter(({ status, ms }) => status !== 0 && ms > LIMIT_MS);
  if (late.length > 0)
    violations.push(`${late.length} answers after 10 s, the first after ${Math.round(late[0]?.ms ?? 0)} ms`);
  return violations;
}

export async function judgeStore({ rows }: Pick<Cluster, 'rows'>, acknowledged: Set<number>): Promise<string[]> {
  const violations: string[] = [];
  const one = async (sql: string): Promise<number> => Number((await rows<{ n: string }>(sql))[0]?.n);
  const stored = await rows<{ cursor: string; id: string }>(
    `select cursor, id from kit.events where type = 'MessageReceived'`,
  );
  const cursors = new Set(stored.map(({ cursor }) => Number(cursor)));
  const lost = [...acknowledged].filter((cursor) => !cursors.has(cursor));
  if (lost.length > 0) violations.push(`${lost.length} acknowledged events are lost, ${lost[0]} first`);
  const double = stored.length - new Set(stored.map(({ id }) => id)).size;
  if (double > 0) violations.push(`${double} events are stored twice`);
  const open = async (): Promise<number> =>
    stored.length -
    (await one(`select count(*) as n from kit.tasks t join kit.handlers h on h.id = t.handler
      join kit.events e on e.seq = t.event where h.name = 'record' and t.state = 'done' and e.type = 'MessageReceived'`));
  await until(async () => (await open()) === 0, DONE_MS).catch(async () =>
    violations.push(`${await open()} events are not completed`),
  );
  if ((await one('select count(distinct key) as n from kit.seen')) < stored.length && violations.length === 0)
    violations.push('events are completed that their handler has not written');
  const twice = await one(
    'select count(*) as n from (select key from kit.seen group by key having count(*) > 1) as again',
  );
  if (twice > 0) violations.push(`${twice} events are completed twice`);
  const back = await one(`select count(*) as n from (select late, cursor < max(cursor) over
    (partition by lane order by n rows between unbounded preceding and 1 preceding) as back from kit.seen) as all_of
    where back and late = 0`);
  if (back > 0) violations.push(`${back} events out of order, and not marked late`);
  return violations;
}
