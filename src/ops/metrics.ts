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
  labels: string[];
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
  kit_ack_seconds: { help: 'Time from the arrival of an authentic delivery to its answer.', prefix: 'ack' },
  kit_attempt_seconds: { help: 'Time that attempts of handlers took.', labels: ['handler'], prefix: 'took' },
};

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const VERDICTS = ['done', 'skipped', 'dead', 'retry', 'deferred'];
const names = ({ handlers }: Figures): string[] => handlers.map(({ name }) => name);

function metric(help: string, labels: string[], read: Metric['read']): Metric {
  return { help, labels, read };
}

/** Metrics by name. A name that ends in `_total` is a counter; any other is a gauge. */
export const METRICS: Record<string, Metric> = {
  kit_events: metric('Events stored.', [], ({ status }) => status.events),
  kit_events_unassigned: metric('Events without tasks yet.', [], ({ status }) => status.unassigned),
  kit_accepted_total: metric('Events accepted since the store was created.', [], counted('accepted')),
  kit_duplicates_total: metric('Deliveries of known events.', [], ({ status }) => status.duplicates),
  kit_quarantined: metric('Authentic bytes that are no event.', [], ({ status }) => status.quarantined),
  kit_conflicts_total: metric('Arrivals that contradicted a known event.', [], counted('conflicts')),
  kit_regressions_total: metric('New events with a cursor at or below the floor.', [], counted('regressions')),
  kit_refused_total: metric(
    'Deliveries refused, by cause.',
    ['cause'],
    under('refused', 1, () => Object.keys(REFUSALS)),
  ),
  kit_signed_total: metric(
    'Deliveries of the service, by the number of their secret in WEBHOOK_SECRET.',
    ['secret'],
    ({ status }) => status.secrets.map(({ number, hits }) => [[String(number)], hits]),
  ),
  kit_failure_run: metric(
    'Deliveries in a row not answered with 2xx, by their headers if they were refused unread; at 15 the service switches the webhook off.',
    [],
    ({ status }) => status.failureRun,
  ),
  kit_unseen_failures_total: metric('New events whose attempt number is above 1.', [], counted('unseen_failures')),
  kit_last_delivery_timestamp_seconds: metric('Time of the last good delivery of the service.', [], ({ status }) =>
    seconds(status.lastDeliveryAt),
  ),
  kit_tasks: metric('Tasks by state.', ['state'], ({ status }) =>
    Object.entries(status.tasks).map(([state, n]) => [[state], n]),
  ),
  kit_oldest_ready_seconds: metric(
    'Age of the oldest ready task; 0 without one.',
    [],
    ({ status }) => status.oldestReadySeconds ?? 0,
  ),
  kit_attempts_total: metric(
    'Attempts by verdict: done, skipped, dead, retry, or deferred by RetryAfter.',
    ['verdict', 'handler'],
    under('attempts', 2, (figures) => VERDICTS.flatMap((of) => names(figures).map((name) => `${of}.${name}`))),
  ),
  kit_fenced_total: metric('Attempts that ended after their claim was gone.', [], counted('fenced')),
  kit_lane_faults_total: metric('Events for which a lane function threw.', ['handler'], under('lane_faults', 1, names)),
  kit_tasks_waiting: ofHandlers('Tasks that have not ended: held, ready or running.', ({ waiting }) => waiting),
  kit_oldest_waiting_seconds: ofHandlers('Age of the oldest event with such a task; 0 without one.', oldest),
  kit_handler_paused: ofHandlers('1 while the handler is paused, else 0.', ({ paused }) => Number(paused !== null)),
  kit_run_crashes_total: metric('Crashes of the process that runs handlers.', [], counted('run_crashes')),
  kit_reconcile_state: metric('1 for the state of reconciliation, 0 for the others.', ['state'], ({ status }) =>
    oneOf(['off', 'idle', 'running', 'backing-off', 'stopped'], status.reconcile.state),
  ),
  kit_reconcile_last_timestamp_seconds: metric(
    'Time when reconciliation last reached the end of the history.',
    [],
    ({ status }) => seconds(status.reconcile.lastAt),
  ),
  kit_recovered_total: metric('Events that replay brought first.', [], counted('recovered')),
  kit_unseen_total: metric('Events of webhooks that replay did not show.', [], counted('unseen')),
  kit_replay_calls_total: metric('Answered calls of ReplayEvents.', [], counted('replay_calls')),
  kit_stream_state: metric('1 for the state of the event stream, 0 for the others.', ['state'], ({ status }) =>
    oneOf(['off', 'open', 'lost', 'stopped'], status.stream.state),
  ),
  kit_wrong_tokens_total: metric(
    'Wrong tokens at the ops port: of the log-in form, or bearer tokens.',
    ['kind'],
    under('wrong_tokens', 1, () => ['bearer', 'form']),
  ),
  kit_instances: metric('Instances that share a PostgreSQL store, by state.', ['state'], ({ status }) =>
    ['up', 'lost'].flatMap((state): Sample[] => {
      const of = status.instances.filter(({ lostAt }) => (lostAt === null) === (state === 'up'));
      return status.instances.length === 0 ? [] : [[[state], of.length]];
    }),
  ),
  kit_gaps_open: metric('Open gaps: history that can no longer be fetched.', [], ({ status }) => status.gaps),
  kit_alarm: metric('1 for each alarm that is raised.', ['name'], ({ status }) =>
    status.alarms.map(({ name }) => [[name], 1]),
  ),
  kit_process_up: metric('1 while the process lives, else 0.', ['role'], ({ status }) =>
    Object.entries(status.processes).map(([role, state]) => [[role], state === 'up' ? 1 : 0]),
  ),
  kit_build_info: metric('1; its labels name the version of the kit and of Node.', ['version', 'node'], () => [
    [[version, process.versions.node], 1],
  ]),
  kit_store_bytes: metric("Size of the store's file.", [], ({ disk }) => disk.storeBytes),
  kit_store_log_bytes: metric("Size of the store's write-ahead log.", [], ({ disk }) => disk.logBytes),
  kit_disk_free_bytes: metric('Free bytes on the disk of the store.', [], ({ disk }) =>
    Number.isFinite(disk.freeBytes) ? disk.freeBytes : null,
  ),
};

/** The metrics of this process. They are collected from the first scrape on. */
let ofProcess: Registry | undefined;

export async function renderMetrics(figures: Figures): Promise<{ type: string; text: string }> {
  // Loaded at the first request, because a kit that nobody scrapes does without its memory.
  const { collectDefaultMetrics, Counter, Gauge, Registry } = await import('prom-client');
  if (!ofProcess) collectDefaultMetrics({ register: (ofProcess = new Registry()) });
  const registry = new Registry();
  for (const [name, { help, labels: labelNames, read }] of Object.entries(METRICS)) {
    const found = read(figures);
    const samples: Sample[] = typeof found === 'number' ? [[[], found]] : (found ?? []);
    // A metric with labels but without series is left out: prom-client would print one series without labels for it.
    if (samples.length === 0) continue;
    const options = { name, help, labelNames, registers: [registry] };
    const made = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
    for (const [labels, value] of samples) made.labels(...labels).inc(value);
  }
  const texts = [await registry.metrics(), ...Object.entries(HISTOGRAMS).map((one) => histogramOf(one, figures))];
  return { type: registry.contentType, text: [...texts, await ofProcess.metrics()].join('\n') };
}

/** Prints a histogram by hand, because the store has only buckets and prom-client's histogram takes single values. */
function histogramOf([name, { help, labels, prefix }]: [string, Histogram], figures: Figures): string {
  const lines = (labels ? names(figures) : ['']).flatMap((handler) => {
    const counter = (part: string | number): number =>
      figures.counters[handler ? `${prefix}.${part}.${handler}` : `${prefix}.${part}`] ?? 0;
    const label = handler && `handler="${handler}"`;
    const own = label && `{${label}}`;
    let below = 0;
    const buckets = ACK_LE_MS.map((ms) => {
      const le = `le="${ms === Infinity ? '+Inf' : ms / 1_000}"`;
      return `${name}_bucket{${label ? `${label},${le}` : le}} ${(below += counter(ms))}`;
    });
    return [...buckets, `${name}_sum${own} ${counter('sum_us') / 1e6}`, `${name}_count${own} ${below}`];
  });
  return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ''].join('\n');
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

function ofHandlers(help: string, value: (figures: HandlerFigures) => number): Metric {
  return metric(help, ['handler'], ({ handlers }) => handlers.map((one) => [[one.name], value(one)]));
}

function oldest({ oldestSeconds }: HandlerFigures): number {
  return oldestSeconds ?? 0;
}

function oneOf(states: string[], now: string): Sample[] {
  return states.map((state) => [[state], state === now ? 1 : 0]);
}

function seconds(time: string | null): number | null {
  return time === null ? null : Date.parse(time) / 1_000;
}
