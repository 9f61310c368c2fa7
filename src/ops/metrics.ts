// The store's counters and status as Prometheus metrics. No label value comes from a delivery. src/ops/README.md lists
// the metrics; a test compares the list with the code.
import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { ACK_LE_MS } from '../base/latency-buckets.ts';
import { REFUSALS } from '../receive/causes.ts';
import type { Counter as CounterName } from '../store/state.ts';
import type { HandlerFigures, Status } from '../store/read.ts';
import type { Disk } from '../store/site.ts';

export interface Figures {
  status: Status;
  counters: Record<string, number>;
  handlers: HandlerFigures[];
  disk: Disk;
}

/** One value of a metric. Its label values stand in the order of the metric's `labels`. */
type Sample = [labels: string[], value: number];

export interface Metric {
  help: string;
  labels?: string[];
  /** Returns a number for a metric without labels, and null for an unknown value. */
  read: (figures: Figures) => Sample[] | number | null;
}

interface Histogram {
  help: string;
  labels?: ['handler'];
  /** Where its counters are: `<prefix>.<bucket><suffix>`. */
  prefix: string;
}

export const HISTOGRAMS: Record<string, Histogram> = {
  kit_ack_seconds: {
    help: 'Time from the arrival of an authentic delivery to its answer, after the commit.',
    prefix: 'ack',
  },
  kit_attempt_seconds: { help: 'Time that attempts of handlers took.', labels: ['handler'], prefix: 'took' },
};

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const VERDICTS = ['done', 'skipped', 'dead', 'retry', 'deferred'];
const names = ({ handlers }: Figures): string[] => handlers.map(({ name }) => name);

/** Metrics by name. A name that ends in `_total` is a counter; any other is a gauge. */
export const METRICS: Record<string, Metric> = {
  kit_events: { help: 'Events stored.', read: ({ status }) => status.events },
  kit_events_unassigned: { help: 'Events without tasks yet.', read: ({ status }) => status.unassigned },
  kit_accepted_total: { help: 'Events accepted since the store was created.', read: counted('accepted') },
  kit_duplicates_total: { help: 'Deliveries of known events.', read: ({ status }) => status.duplicates },
  kit_quarantined: {
    help: 'Authentic bytes that could not be read as an event.',
    read: ({ status }) => status.quarantined,
  },
  kit_conflicts_total: { help: 'Arrivals that contradicted a known event.', read: counted('conflicts') },
  kit_regressions_total: { help: 'New events with a cursor at or below the floor.', read: counted('regressions') },
  kit_refused_total: {
    help: 'Deliveries refused, by cause.',
    labels: ['cause'],
    read: under('refused', 1, () => Object.keys(REFUSALS)),
  },
  kit_signed_total: {
    help: 'Deliveries of the service, by the number of their secret in WEBHOOK_SECRET.',
    labels: ['secret'],
    read: ({ status }) => status.secrets.map(({ number, hits }) => [[String(number)], hits]),
  },
  kit_failure_run: {
    help: 'Deliveries in a row not answered with 2xx, by their headers if they were refused unread; at 15 the service switches the webhook off.',
    read: ({ status }) => status.failureRun,
  },
  kit_unseen_failures_total: {
    help: 'New events that arrived with an attempt number above 1.',
    read: counted('unseen_failures'),
  },
  kit_last_delivery_timestamp_seconds: {
    help: 'Time of the last good delivery of the service.',
    read: ({ status }) => seconds(status.lastDeliveryAt),
  },
  kit_tasks: { help: 'Tasks by state.', labels: ['state'], read: ({ status }) => samplesOf(status.tasks) },
  kit_oldest_ready_seconds: {
    help: 'Age of the oldest ready task; 0 without one.',
    read: ({ status }) => status.oldestReadySeconds ?? 0,
  },
  kit_attempts_total: {
    help: 'Attempts by verdict: done, skipped, dead, retry, or deferred by RetryAfter.',
    labels: ['verdict', 'handler'],
    read: under('attempts', 2, (figures) => VERDICTS.flatMap((of) => names(figures).map((name) => `${of}.${name}`))),
  },
  kit_fenced_total: { help: 'Attempts that ended after their claim was gone.', read: counted('fenced') },
  kit_lane_faults_total: {
    help: 'Events for which a lane function threw.',
    labels: ['handler'],
    read: under('lane_faults', 1, names),
  },
  kit_tasks_waiting: {
    help: 'Tasks that have not ended: held, ready or running.',
    labels: ['handler'],
    read: byHandler(({ waiting }) => waiting),
  },
  kit_oldest_waiting_seconds: {
    help: 'Age of the oldest event with a task that has not ended; 0 without one.',
    labels: ['handler'],
    read: byHandler(({ oldestSeconds }) => oldestSeconds ?? 0),
  },
  kit_handler_paused: {
    help: '1 while the handler is paused, else 0.',
    labels: ['handler'],
    read: byHandler(({ paused }) => Number(paused !== null)),
  },
  kit_run_crashes_total: { help: 'Crashes of the process that runs handlers.', read: counted('run_crashes') },
  kit_reconcile_state: {
    help: '1 for the state of reconciliation, 0 for the others.',
    labels: ['state'],
    read: ({ status }) => oneOf(['off', 'idle', 'running', 'backing-off', 'stopped'], status.reconcile.state),
  },
  kit_reconcile_last_timestamp_seconds: {
    help: 'Time when reconciliation last reached the end of the history.',
    read: ({ status }) => seconds(status.reconcile.lastAt),
  },
  kit_recovered_total: { help: 'Events that replay brought first.', read: counted('recovered') },
  kit_unseen_total: { help: 'Events of webhooks that replay did not show.', read: counted('unseen') },
  kit_replay_calls_total: { help: 'Answered calls of ReplayEvents.', read: counted('replay_calls') },
  kit_stream_state: {
    help: '1 for the state of the event stream, 0 for the others.',
    labels: ['state'],
    read: ({ status }) => oneOf(['off', 'open', 'lost', 'stopped'], status.stream.state),
  },
  kit_wrong_tokens_total: {
    help: 'Wrong tokens at the ops port: of the log-in form, or bearer tokens.',
    labels: ['kind'],
    read: under('wrong_tokens', 1, () => ['bearer', 'form']),
  },
  kit_instances: {
    help: 'Instances that share a PostgreSQL store, by state.',
    labels: ['state'],
    read: ({ status }) =>
      ['up', 'lost'].flatMap((state): Sample[] => {
        const of = status.instances.filter(({ lostAt }) => (lostAt === null) === (state === 'up'));
        return status.instances.length === 0 ? [] : [[[state], of.length]];
      }),
  },
  kit_gaps_open: { help: 'Open gaps: history that can no longer be fetched.', read: ({ status }) => status.gaps },
  kit_alarm: {
    help: '1 for each alarm that is raised.',
    labels: ['name'],
    read: ({ status }) => status.alarms.map(({ name }) => [[name], 1]),
  },
  kit_process_up: {
    help: '1 while the process lives, else 0.',
    labels: ['role'],
    read: ({ status }) => Object.entries(status.processes).map(([role, state]) => [[role], state === 'up' ? 1 : 0]),
  },
  kit_build_info: {
    help: '1; its labels name the version of the kit and of Node.',
    labels: ['version', 'node'],
    read: () => [[[version, process.versions.node], 1]],
  },
  kit_store_bytes: { help: "Size of the store's file.", read: ({ disk }) => disk.storeBytes },
  kit_store_log_bytes: { help: "Size of the store's write-ahead log.", read: ({ disk }) => disk.logBytes },
  kit_disk_free_bytes: {
    help: 'Free bytes on the disk of the store.',
    read: ({ disk }) => (Number.isFinite(disk.freeBytes) ? disk.freeBytes : null),
  },
};

/** The metrics of this process. They are collected from the first scrape on. */
let ofProcess: Registry | undefined;

export async function renderMetrics(figures: Figures): Promise<{ type: string; text: string }> {
  // Loaded at the first request, because a kit that nobody scrapes does without its memory.
  const { collectDefaultMetrics, Counter, Gauge, Registry } = await import('prom-client');
  if (!ofProcess) collectDefaultMetrics({ register: (ofProcess = new Registry()) });
  const registry = new Registry();
  for (const [name, { help, labels: labelNames = [], read }] of Object.entries(METRICS)) {
    const found = read(figures);
    const samples: Sample[] = typeof found === 'number' ? [[[], found]] : (found ?? []);
    // A metric with labels but without series is left out: prom-client would print one series without labels for it.
    if (samples.length === 0) continue;
    const options = { name, help, labelNames, registers: [registry] };
    const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
    for (const [labels, value] of samples) metric.labels(...labels).inc(value);
  }
  const texts = [await registry.metrics(), ...Object.entries(HISTOGRAMS).map((one) => histogramOf(one, figures))];
  return { type: registry.contentType, text: [...texts, await ofProcess.metrics()].join('\n') };
}

/** Prints a histogram by hand, because the store has only buckets and prom-client's histogram takes single values. */
function histogramOf([name, { help, labels, prefix }]: [string, Histogram], figures: Figures): string {
  const series = labels
    ? names(figures).map((of) => seriesOf(name, prefix, figures, of))
    : [seriesOf(name, prefix, figures)];
  return `# HELP ${name} ${help}\n# TYPE ${name} histogram\n${series.join('')}`;
}

function seriesOf(name: string, prefix: string, { counters }: Figures, handler?: string): string {
  const suffix = handler === undefined ? '' : `.${handler}`;
  const label = handler === undefined ? '' : `handler=${JSON.stringify(handler)}`;
  let below = 0;
  const buckets = ACK_LE_MS.map((ms) => {
    below += counters[`${prefix}.${ms}${suffix}`] ?? 0;
    return `${name}_bucket{${label && `${label},`}le="${ms === Infinity ? '+Inf' : ms / 1_000}"} ${below}\n`;
  });
  const sum = (counters[`${prefix}.sum_us${suffix}`] ?? 0) / 1e6;
  const own = label && `{${label}}`;
  return `${buckets.join('')}${name}_sum${own} ${sum}\n${name}_count${own} ${below}\n`;
}

function counted(name: CounterName): Metric['read'] {
  return ({ counters }) => counters[name] ?? 0;
}

/**
 * Reads the counters that are named `<prefix>.<label>.<label>`. The last label may hold dots. `known`: the labels that
 * begin at zero, because `rate` does not see a counter that begins at 1.
 */
function under(prefix: string, labels: number, known: (figures: Figures) => string[]): Metric['read'] {
  return (figures) => {
    const zeros = Object.fromEntries(known(figures).map((name) => [`${prefix}.${name}`, 0]));
    return Object.entries({ ...zeros, ...figures.counters }).flatMap(([name, value]): Sample[] => {
      const [first, ...parts] = name.split('.');
      return first === prefix ? [[[...parts.slice(0, labels - 1), parts.slice(labels - 1).join('.')], value]] : [];
    });
  };
}

function byHandler(value: (figures: HandlerFigures) => number): Metric['read'] {
  return ({ handlers }) => handlers.map((one): Sample => [[one.name], value(one)]);
}

function samplesOf(values: Record<string, number>): Sample[] {
  return Object.entries(values).map(([label, value]) => [[label], value]);
}

function oneOf(states: string[], now: string): Sample[] {
  return states.map((state) => [[state], state === now ? 1 : 0]);
}

function seconds(time: string | null): number | null {
  return time === null ? null : Date.parse(time) / 1_000;
}
