// The charts of the overview: attempts, the backlog and its age, acknowledgement, and what was not new.
import type { Sample } from '../../store/read.ts';
import { answersIn, grown, quantile, shownMs } from './samples.ts';
import { chart, type ChartOptions, type Mark, type Series } from './shell/chart.ts';
import type { Html } from './shell/html.ts';
import { count, span } from './shell/parts.ts';

type Width = Pick<ChartOptions, 'from' | 'to'>;
interface Step {
  before: Sample;
  sample: Sample;
}
type Figure = (sample: Sample) => number | null | undefined;

/** Samples of an older kit lack some figures, so charts leave them out. */
export function createCharts(samples: Sample[], width: Width) {
  const steps = samples.slice(1).map((sample, i): Step => ({ sample, before: samples[i] ?? sample }));
  const rest = { ...width, times: steps.map(({ sample }) => sample.at), marks: marksOf(steps) };
  const growth = (name: string, of: Figure): Series => growthOf(steps, name, of);
  const level = (name: string, of: Figure, sum: string): Series => {
    return { name, values: steps.map(({ sample }) => of(sample) ?? null), sum };
  };
  const acks = (name: string, q: number): Series => ({
    name,
    values: steps.map(({ sample, before }) => quantile(answersIn([before, sample]), q)),
    sum: shownMs(quantile(answersIn(samples), q)),
  });
  const last = samples.at(-1);
  const small = (title: string, series: Series[], show = rate): Html => chart({ ...rest, title, series, show });
  return {
    attempts: (): Html =>
      chart({
        ...rest,
        title: 'Attempts of handlers, a minute',
        series: [
          growth('succeeded', ({ succeeded }) => succeeded),
          { ...growth('failed', ({ failed }) => failed), tone: 'bad' },
        ],
        show: rate,
      }),
    others: (): Html[] => [
      small('Waiting tasks', [level('waiting', ({ waiting }) => waiting, count(last?.waiting ?? 0))]),
      small(
        'Age of the oldest ready task',
        [level('oldest', ({ oldestSeconds }) => oldestSeconds, age(last?.oldestSeconds ?? 0))],
        age,
      ),
      chart({
        ...rest,
        title: 'Acknowledgement, limit 10 s',
        series: [acks('p50', 0.5), acks('p99', 0.99)],
        show: shownMs,
        logUpTo: 10_000,
      }),
      small('Events accepted, a minute', [growth('accepted', ({ accepted }) => accepted)]),
      small('Duplicates, a minute', [growth('duplicates', ({ duplicates }) => duplicates)]),
      small('Refused and quarantined, a minute', [
        growth('refused', ({ refused }) => refused),
        growth('quarantined', ({ quarantined }) => quarantined),
      ]),
    ],
  };
}

function growthOf(steps: Step[], name: string, of: Figure): Series {
  const each = steps.map(({ sample, before }) => {
    const [from, to] = [of(before), of(sample)];
    return from == null || to == null ? null : grown(from, to);
  });
  const values = each.map((n, i) => {
    const { sample, before } = steps[i] ?? {};
    return n === null ? null : (n * 60_000) / Math.max(1, (sample?.at ?? 0) - (before?.at ?? 0));
  });
  return { name, values, sum: count(each.reduce<number>((sum, n) => sum + (n ?? 0), 0)) };
}

/** Restarts of `run`, and alarms that were raised. */
function marksOf(steps: Step[]): Mark[] {
  return steps.flatMap(({ sample, before }) => {
    const restarted = before.boot !== undefined && sample.boot !== undefined && sample.boot > before.boot;
    const raised = (sample.alarms ?? []).filter((name) => before.alarms?.includes(name) === false);
    const { at } = sample;
    return [
      ...(restarted ? [{ at, kind: 'restart' as const, words: 'restart' }] : []),
      ...(raised.length > 0 ? [{ at, kind: 'alarm' as const, words: `alarm ${raised.join(', ')}` }] : []),
    ];
  });
}

function rate(n: number): string {
  return count(Math.round(n * 10) / 10);
}

function age(seconds: number): string {
  return span(seconds).replace(/ (min|h|d) .*/, ' $1');
}
