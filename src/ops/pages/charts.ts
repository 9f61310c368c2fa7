// The charts of the overview: attempts, the backlog and its age, acknowledgement, and what was not new.
import { quantile } from '../../admin/recent-attempts.ts';
import type { Sample } from '../../store/read.ts';
import { answersIn, grown, shownMs } from './samples.ts';
import { chart, type ChartOptions, type Mark, type Series } from './shell/chart.ts';
import type { Html } from './shell/html.ts';
import { count, span } from './shell/parts.ts';

interface Step {
  before: Sample;
  sample: Sample;
}
/** Samples of an older kit lack some figures, so charts leave them out. */
type FigureOf = (sample: Sample) => number | null | undefined;

export function createCharts(samples: Sample[], width: Pick<ChartOptions, 'from' | 'to'>) {
  const steps = samples.slice(1).map((sample, i): Step => ({ sample, before: samples[i] ?? sample }));
  const rest = { ...width, times: steps.map(({ sample }) => sample.at), marks: steps.flatMap(marksOf) };
  const levels = (of: FigureOf): Series['values'] => steps.map(({ sample }) => of(sample) ?? null);
  const acks = (name: string, q: number): Series => ({
    name,
    values: steps.map(({ sample, before }) => quantile(answersIn([before, sample]), q)),
    sum: shownMs(quantile(answersIn(samples), q)),
  });
  const rates = (title: string, of: Record<string, FigureOf>): Html => {
    const series = Object.entries(of).map(([name, figure]) => growthOf(steps, name, figure));
    return chart({ ...rest, title: `${title}, a minute`, series, show: rate });
  };
  const { waiting = 0, oldestSeconds = null } = samples.at(-1) ?? {};
  const backlog = { name: 'waiting', values: levels((one) => one.waiting), sum: count(waiting) };
  const oldest = { name: 'oldest', values: levels((one) => one.oldestSeconds), sum: age(oldestSeconds ?? 0) };
  const answered = [acks('p50', 0.5), acks('p99', 0.99)];
  return {
    attempts: (): Html =>
      rates('Attempts of handlers', { succeeded: (one) => one.succeeded, failed: (one) => one.failed }),
    others: (): Html[] => [
      chart({ ...rest, title: 'Waiting tasks', series: [backlog], show: rate }),
      chart({ ...rest, title: 'Age of the oldest ready task', series: [oldest], show: age }),
      chart({ ...rest, title: 'Acknowledgement, limit 10 s', series: answered, show: shownMs, logUpTo: 10_000 }),
      rates('Events accepted', { accepted: (one) => one.accepted }),
      rates('Duplicates', { duplicates: (one) => one.duplicates }),
      rates('Refused and quarantined', { refused: (one) => one.refused, quarantined: (one) => one.quarantined }),
    ],
  };
}

function growthOf(steps: Step[], name: string, of: FigureOf): Series {
  const each = steps.map(({ sample, before }) => {
    const [from, to] = [of(before), of(sample)];
    const n = from == null || to == null ? null : grown(from, to);
    return { n, rate: n === null ? null : (n * 60_000) / Math.max(1, sample.at - before.at) };
  });
  return { name, values: each.map((one) => one.rate), sum: count(each.reduce((sum, { n }) => sum + (n ?? 0), 0)) };
}

/** Restarts of `run`, and alarms that were raised. */
function marksOf({ sample: { at, boot, alarms = [] }, before }: Step): Mark[] {
  const raised = alarms.filter((name) => before.alarms?.includes(name) === false);
  return [
    ...((boot ?? 0) > (before.boot ?? Infinity) ? [{ at, kind: 'restart' as const, words: 'restart' }] : []),
    ...(raised.length > 0 ? [{ at, kind: 'alarm' as const, words: `alarm ${raised.join(', ')}` }] : []),
  ];
}

function rate(n: number): string {
  return (Math.round(n * 10) / 10).toLocaleString('en', n < 10_000 ? {} : { notation: 'compact' });
}

function age(seconds: number): string {
  return span(seconds).replace(/ (min|h|d) .*/, ' $1');
}
