// The overview: a sentence about health, the alarms, figures, charts over time, and the longest lanes.
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';
import { iso } from '../../base/clock.ts';
import { ACK_LE_MS } from '../../base/latency-buckets.ts';
import type { ReadStore, Sample, Status, WaitingLane } from '../../store/read.ts';
import { chart } from './shell/chart.ts';
import { keyLink, why } from './events.ts';
import type { AlarmRules } from '../../keep/module.ts';
import { health } from './health.ts';
import { html, type Html } from './shell/html.ts';
import { code, count, figures, span, table, time } from './shell/parts.ts';

export const RANGES = {
  '1h': { ms: 3_600_000, stepMs: 30_000 },
  '6h': { ms: 21_600_000, stepMs: 180_000 },
  '24h': { ms: 86_400_000, stepMs: 720_000 },
  '7d': { ms: 604_800_000, stepMs: 5_400_000 },
};
export type Range = keyof typeof RANGES;
/** The number of points of a chart. */
const POINTS = 120;
type Figure = Parameters<typeof figures>[0][number];

const SLOW_MS = 2_000;
const OLD_SECONDS = 300;

export interface Overview {
  status: Status;
  /** WEBHOOK_SECRET is probably wrong. */
  mismatch: boolean;
  /** The samples up to `now`, of the time that `range` names. */
  samples: Sample[];
  now: number;
  lanes: WaitingLane[];
  range: Range;
  rules: AlarmRules;
}

/** The samples of a range. If the first figures are younger than the range, their steps are shorter. */
export async function samplesOf(store: Pick<ReadStore, 'samples'>, range: Range, now: number): Promise<Sample[]> {
  const { ms, stepMs } = RANGES[range];
  const samples = await store.samples(now - ms, now, stepMs);
  const from = (samples[0]?.at ?? now) - stepMs;
  return from <= now - ms ? samples : store.samples(from, now, Math.ceil((now - from) / POINTS));
}

export function overview({ status, mismatch, samples, now, lanes, range, rules }: Overview): Html {
  const { words, tone } = health(status, rules);
  const from = now - RANGES[range].ms;
  const first = samples[0]?.at ?? from;
  return html`<p class="health ${tone}">${words}</p>
    ${moving(status)} ${alarms(status)}
    ${figures([...deliveryFigures(status, samples, mismatch), ...workFigures(status)])}
    <h2 id="time">Over time</h2>
    <p class="ranges">
      ${Object.keys(RANGES).map(
        (name) =>
          html`<a href="/?range=${name}" ${name === range ? html`aria-current="true"` : null}
            >${name.replace(/(\d+)/, '$1 ')}</a
          >`,
      )}
    </p>
    ${first - from > RANGES[range].stepMs ? html`<p class="soft">There are figures since ${time(iso(first))}.</p>` : null}
    <div class="charts">${charts(samples, { from, to: now })}</div>
    ${status.instances.length > 0 ? instances(status) : null}
    <h2>Lanes in which most tasks wait</h2>
    ${table(
      'Lanes in which most tasks wait',
      ['handler', 'lane', '#waiting', 'they wait for', '#its attempts', 'its last error'],
      lanes.map(({ handler, lane, waiting, more, head }) => [
        handler,
        code(lane),
        more ? `${count(waiting)} or more` : waiting,
        keyLink(head.key),
        head.attempts,
        head.error === null ? null : why(head.error),
      ]),
      'No task waits for another.',
    )}`;
}

function moving({ moving: now }: Status): Html | null {
  if (!now) return null;
  return html`<p>The store is being moved: ${count(now.rows)} of ${count(now.of)} rows are copied. Handlers pause.</p>`;
}

function instances({ instances: all }: Status): Html {
  return html`<h2>Instances</h2>
    ${table(
      'Instances that share the store',
      ['instance', 'state', 'processes', 'handlers', 'version', 'since'],
      all.map(({ name, lostAt, leads, processes, handlers, version, since }) => [
        code(name),
        lostAt === null
          ? html`<span class="state good">${leads ? html`<b>leads</b>` : 'stands by'}</span>`
          : html`<span class="state bad">lost since ${time(lostAt)}</span>`,
        processes.join(' ') || null,
        count(handlers.length),
        version,
        time(since),
      ]),
      'No instance gives signs of life.',
    )}`;
}

function alarms({ alarms: up }: Status): Html | null {
  if (up.length === 0) return null;
  return html`<ul class="alarms" id="alarms">
    ${up.map(({ name, since, detail }) => html`<li><b>${name}</b> <span class="soft">since ${time(since)}</span><br />${detail}</li>`)}
  </ul>`;
}

function deliveryFigures(
  { failureRun, failures, lastDeliveryAt }: Status,
  samples: Sample[],
  mismatch: boolean,
): Figure[] {
  const { badSignatures } = failures;
  const acks = difference(samples);
  const p99 = quantile(acks, 0.99);
  return [
    {
      name: 'Last delivery',
      value: time(lastDeliveryAt),
      note: badSignatures > 0 ? `${count(badSignatures)} since with a bad signature` : null,
      tone: mismatch ? 'warn' : undefined,
    },
    {
      name: 'Acknowledged within',
      value: p99 === null ? null : shownMs(p99),
      note:
        p99 === null
          ? 'no deliveries in this time'
          : `99 of 100; half in ${shownMs(quantile(acks, 0.5) ?? 0)}; limit 10 s`,
      tone: p99 !== null && p99 > SLOW_MS ? 'bad' : undefined,
    },
    {
      name: 'Failure run',
      value:
        failureRun > FAILURES_ALLOWED
          ? `${failureRun}, past ${FAILURES_ALLOWED}`
          : `${failureRun} of ${FAILURES_ALLOWED}`,
      note:
        failureRun === 0
          ? `at ${FAILURES_ALLOWED} the service switches the webhook off`
          : Object.entries(failures.causes)
              .map(([cause, n]) => `${n} × ${cause}`)
              .join(', '),
      tone: failureRun >= 10 ? 'bad' : failureRun >= 3 ? 'warn' : undefined,
    },
  ];
}

function workFigures(status: Status): Figure[] {
  const { reconcile, watermark, newestCursor, oldestReadySeconds, tasks } = status;
  const behind = watermark !== null && newestCursor !== null ? BigInt(newestCursor) - BigInt(watermark) : null;
  return [
    {
      name: 'Oldest ready task',
      value: oldestReadySeconds === null ? 'none' : span(oldestReadySeconds),
      note: `${count(tasks.ready)} ready, ${count(tasks.running)} running, ${count(tasks.held)} held`,
      tone: (oldestReadySeconds ?? 0) > OLD_SECONDS ? 'warn' : undefined,
    },
    {
      name: 'Watermark',
      value: code(watermark),
      note:
        newestCursor === null
          ? 'no cursor yet'
          : html`newest ${code(newestCursor)}${behind !== null && behind > 0n ? ` (+${behind})` : null}`,
    },
    {
      name: 'Last reconciliation',
      value: time(reconcile.lastAt),
      note: `${reconcile.state}; ${count(reconcile.recovered)} recovered in all`,
      tone: reconcile.state === 'stopped' ? 'bad' : undefined,
    },
    {
      name: 'Open gaps',
      value: status.gaps,
      tone: status.gaps > 0 ? 'warn' : undefined,
      note: html`<a href="/reconciliation">reconciliation</a>`,
    },
    {
      name: 'Dead letters',
      value: tasks.dead,
      tone: tasks.dead > 0 ? 'warn' : undefined,
      note: html`<a href="/dead-letters">dead letters</a>`,
    },
    { name: 'Events stored', value: status.events, note: `${count(status.duplicates)} duplicates in all` },
    {
      name: 'Processes',
      value: html`${Object.entries(status.processes).map(
        ([role, state]) =>
          html`<span class="state ${state === 'up' ? 'good' : 'bad'}"
            >${state === 'up' ? role : `${role} is down`}</span
          > `,
      )}`,
    },
  ];
}

function charts(samples: Sample[], width: { from: number; to: number }): Html[] {
  const steps = samples.slice(1).map((sample, i) => ({ sample, before: samples[i] ?? sample }));
  const times = steps.map(({ sample }) => sample.at);
  const series = (name: 'accepted' | 'handled' | 'duplicates' | 'refused' | 'quarantined') => {
    const grown = steps.map(({ sample, before }) => Math.max(0, sample[name] - before[name]));
    const values = grown.map((n, i) => (n * 60_000) / Math.max(1, (times[i] ?? 0) - (steps[i]?.before.at ?? 0)));
    return { name, values, sum: count(grown.reduce((sum, n) => sum + n, 0)) };
  };
  const acks = (name: string, q: number) => ({
    name,
    values: steps.map(({ sample, before }) => quantile(difference([before, sample]), q)),
    sum: shownMs(quantile(difference(samples), q)),
  });
  const rate = (n: number): string => count(Math.round(n * 10) / 10);
  return [
    chart({
      title: 'Events accepted, tasks handled, a minute',
      ...width,
      times,
      series: [series('accepted'), series('handled')],
      show: rate,
    }),
    chart({
      title: 'Acknowledgement, limit 10 s',
      ...width,
      times,
      series: [acks('p50', 0.5), acks('p99', 0.99)],
      show: shownMs,
      logUpTo: 10_000,
    }),
    chart({
      title: 'Not new, a minute',
      ...width,
      times,
      series: [series('duplicates'), series('refused'), series('quarantined')],
      show: rate,
    }),
  ];
}

/** How many deliveries each latency bucket has counted between the first sample and the last. */
function difference(samples: Sample[]): number[] {
  const [first, last] = [samples[0], samples.at(-1)];
  return (last?.acks ?? []).map((n, i) => Math.max(0, n - (first?.acks[i] ?? 0)));
}

/** Milliseconds within which this share of the answers was given: a bucket's upper bound. Null: no answers. */
export function quantile(acks: number[], share: number): number | null {
  const all = acks.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  for (const [i, n] of acks.entries())
    if ((seen += n) >= all * share && all > 0) return Math.min(ACK_LE_MS[i] ?? Infinity, 20_000);
  return null;
}

function shownMs(ms: number | null): string {
  if (ms === null) return '–';
  return ms > 10_000 ? 'over 10 s' : ms < 1_000 ? `${ms} ms` : `${ms / 1000} s`;
}
