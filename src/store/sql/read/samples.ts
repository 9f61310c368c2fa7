// Samples of the counters for the charts: a row every ten seconds for a day, every minute for eight days. Written by
// `keep` alone.
import { ACK_LE_MS, ACK_NAMES } from '../../../base/latency-buckets.ts';
import type { HandlerSample, Sample, ReadStore } from '../../read.ts';
import type { Session } from '../session.ts';

const TEN_SECONDS_MS = 10_000;

export function createSamples(session: Session, status: ReadStore['status']): Pick<ReadStore, 'sample' | 'samples'> {
  const counters = session.statement<{ name: string; value: number }>('select name, value from counters');
  const insert = session.statement(
    'insert into samples (at, figures) values (?, ?) on conflict (at) do update set figures = excluded.figures',
  );
  const list = session.statement<{ at: number; figures: string }>(`
    select at, figures from samples
    where at in (select max(at) from samples where at >= ? and at <= ? group by at / cast(? as bigint)) order by at`);

  return {
    async sample(now) {
      const at = now - (now % TEN_SECONDS_MS);
      const n = Object.fromEntries((await counters.all()).map(({ name, value }) => [name, value]));
      const { unassigned, oldestReadySeconds, alarms } = await status(now);
      const of = (name: string): number => n[name] ?? 0;
      const refused = Object.entries(n).reduce(
        (sum, [name, value]) => sum + (name.startsWith('refused.') ? value : 0),
        0,
      );
      const figures: Omit<Sample, 'at'> = {
        accepted: of('accepted'),
        duplicates: of('duplicates'),
        refused,
        quarantined: of('quarantined'),
        handled: of('tasks.done') + of('pruned.done'),
        acks: ACK_NAMES.map(of),
        ...attemptsIn(n),
        waiting: of('tasks.ready') + of('tasks.running') + unassigned,
        oldestSeconds: oldestReadySeconds,
        boot: Number(await session.state('boot')),
        alarms: alarms.map(({ name }) => name),
      };
      await session.write(() => insert.run(at, JSON.stringify(figures)));
    },
    async samples(from, to, stepMs) {
      const rows = await list.all(from, to, stepMs);
      return rows.map(({ at, figures }) => ({ at, ...(JSON.parse(figures) as Omit<Sample, 'at'>) }));
    },
  };
}

const SUCCEEDED = new Set(['done', 'skipped']);
const FAILED = new Set(['dead', 'retry']);

/** The attempts of each handler and of all, from the counters `attempts.<verdict>.<handler>` and `took.<bucket>.<handler>`. */
function attemptsIn(counters: Record<string, number>): Pick<Required<Sample>, 'succeeded' | 'failed' | 'handlers'> {
  const handlers = new Map<string, HandlerSample>();
  for (const [name, value] of Object.entries(counters)) {
    const [, kind, part = '', handler = ''] = /^(attempts|took)\.([^.]+)\.(.+)$/s.exec(name) ?? [];
    if (!kind) continue;
    const its = handlers.get(handler) ?? { succeeded: 0, failed: 0, took: ACK_LE_MS.map(() => 0) };
    handlers.set(handler, its);
    if (SUCCEEDED.has(part)) its.succeeded += value;
    if (FAILED.has(part)) its.failed += value;
    const bucket = kind === 'took' ? ACK_LE_MS.indexOf(Number(part)) : -1;
    if (bucket >= 0) its.took[bucket] = value;
  }
  const all = [...handlers.values()];
  return {
    succeeded: all.reduce((sum, its) => sum + its.succeeded, 0),
    failed: all.reduce((sum, its) => sum + its.failed, 0),
    handlers: Object.fromEntries(handlers),
  };
}
