// Is it well, and if not, what is to do? One sentence, then figures, then how they went.
import { ACK_LE_MS } from '../../base/latency-buckets.ts';
import type { Sample, Status, WaitingLane } from '../../store/read.ts';
import { chart } from './shell/chart.ts';
import { keyLink, why } from './events.ts';
import { html, type Html } from './shell/html.ts';
import { code, count, figures, span, table, time } from './shell/parts.ts';

export const RANGES = {
  '1h': { ms: 3_600_000, stepMs: 30_000 },
  '6h': { ms: 21_600_000, stepMs: 180_000 },
  '24h': { ms: 86_400_000, stepMs: 720_000 },
  '7d': { ms: 604_800_000, stepMs: 5_400_000 },
};
export type Range = keyof typeof RANGES;

const FAILURES_ALLOWED = 15;
const SLOW_MS = 2_000;
const OLD_SECONDS = 300;
/** While one of these is up, events are lost, late or about to be. */
const GRAVE =
  /^(store_unwritable|store_replaced|failure_run|webhook_silent|secret_mismatch|disk_low|run_crashing|reconcile_stopped)$/;

/** While one of these is up, nothing can be committed. */
export const STORE_ALARMS = new Set(['store_unwritable', 'store_replaced']);

/** While one of these is up, deliveries do not come through. */
const MISSING = /^(webhook_silent|secret_mismatch)$/;

export interface Overview {
  status: Status;
  samples: Sample[];
  lanes: WaitingLane[];
  range: Range;
}

export function overview({ status, samples, lanes, range }: Overview): Html {
  const { words, tone } = health(status);
  return html`<p class="health ${tone}">${words}</p>
    ${alarms(status)} ${key(status, samples)}
    <h2 id="time">Over time</h2>
    <p class="ranges">
      ${Object.keys(RANGES).map(
        (name) =>
          html`<a href="/?range=${name}" ${name === range ? html`aria-current="true"` : null}
            >${name.replace(/(\d+)/, '$1 ')}</a
          >`,
      )}
    </p>
    <div class="charts">${charts(samples)}</div>
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

/** What a person should know first, in one sentence. */
export function health(status: Status): { words: string; tone: 'good' | 'warn' | 'bad' } {
  const { processes, alarms: up, reconcile, tasks } = status;
  const down = Object.entries(processes).flatMap(([role, state]) => (state === 'down' ? [role] : []));
  if (up.some(({ name }) => STORE_ALARMS.has(name))) {
    return {
      words:
        'The store cannot be written: deliveries get 503, and no handler goes on. The alarm below says why; what is delivered meanwhile comes again. The figures are those of before.',
      tone: 'bad',
    };
  }
  if (down.includes('receive'))
    return { words: 'Deliveries are not taken: the receiver does not run. Start it (npm start).', tone: 'bad' };
  if (down.length > 0)
    return { words: `Deliveries are taken, but ${down.join(' and ')} does not run: see the log.`, tone: 'bad' };
  if (up.length > 0) {
    const grave = up.some(({ name }) => GRAVE.test(name));
    const much = up.length === 1 ? 'one thing needs' : `${up.length} things need`;
    const come = up.some(({ name }) => MISSING.test(name))
      ? 'Deliveries are missing:'
      : status.failureRun >= 3
        ? 'Deliveries are refused:'
        : 'Deliveries are taken, but';
    return { words: `${come} ${much} a person.`, tone: grave ? 'bad' : 'warn' };
  }
  if (status.events === 0) {
    return {
      words:
        'All is ready, and nothing has come yet: register the webhook, then send its test event. npx kit doctor checks the way.',
      tone: 'good',
    };
  }
  const waiting = tasks.ready + tasks.held + tasks.running + status.unassigned;
  const work =
    waiting === 0 ? 'all is handled' : `${count(waiting)} ${waiting === 1 ? 'task is' : 'tasks are'} on the way`;
  if (reconcile.state === 'off') {
    return {
      words: `All is well: deliveries are taken, ${work}. What webhooks miss is not fetched: set API_BASE_URL and API_KEY.`,
      tone: 'good',
    };
  }
  return {
    words: `All is well: deliveries are taken, ${work}, and nothing is missing${status.watermark === null ? ' as far as known' : ''}.`,
    tone: 'good',
  };
}

function alarms({ alarms: up }: Status): Html | null {
  if (up.length === 0) return null;
  return html`<ul class="alarms" id="alarms">
    ${up.map(({ name, since, detail }) => html`<li><b>${name}</b> <span class="soft">since ${time(since)}</span><br />${detail}</li>`)}
  </ul>`;
}

function key(status: Status, samples: Sample[]): Html {
  const { reconcile, watermark, newestCursor, oldestReadySeconds, failureRun, tasks } = status;
  const { badSignatures } = status.failures;
  const acks = difference(samples);
  const p99 = quantile(acks, 0.99);
  const behind = watermark !== null && newestCursor !== null ? BigInt(newestCursor) - BigInt(watermark) : null;
  return figures([
    {
      name: 'Last delivery',
      value: time(status.lastDeliveryAt),
      note: badSignatures > 0 ? `${count(badSignatures)} since, signed by no secret of ours` : null,
      tone: badSignatures >= 3 ? 'warn' : undefined,
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
          ? 'at 15 the service switches the webhook off'
          : Object.entries(status.failures.causes)
              .map(([cause, n]) => `${n} × ${cause}`)
              .join(', '),
      tone: failureRun >= 10 ? 'bad' : failureRun >= 3 ? 'warn' : undefined,
    },
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
          ? 'no cursor has been seen'
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
  ]);
}

function charts(samples: Sample[]): Html[] {
  const steps = samples.slice(1).map((sample, i) => ({ sample, before: samples[i] ?? sample }));
  const times = steps.map(({ sample }) => sample.at);
  type Figure = Exclude<keyof Sample, 'at' | 'acks'>;
  const series = (name: Figure) => {
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
      times,
      series: [series('accepted'), series('handled')],
      show: rate,
    }),
    chart({
      title: 'Acknowledgement, limit 10 s',
      times,
      series: [acks('p50', 0.5), acks('p99', 0.99)],
      show: shownMs,
      logUpTo: 10_000,
    }),
    chart({
      title: 'Not new, a minute',
      times,
      series: [series('duplicates'), series('refused'), series('quarantined')],
      show: rate,
    }),
  ];
}

/** Answers by how long they took, between the first sample and the last. */
function difference(samples: Sample[]): number[] {
  const [first, last] = [samples[0], samples.at(-1)];
  return (last?.acks ?? []).map((n, i) => Math.max(0, n - (first?.acks[i] ?? 0)));
}

/** What this share of the answers kept to, milliseconds; null where there were none. */
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
