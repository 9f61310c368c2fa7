// The store's counters and status as Prometheus metrics. Labels come from our own words only, never from a delivery.
// src/ops/README.md lists them; a test holds list and code together.
import { Counter, Gauge, Registry } from 'prom-client';
import { ACK_LE_MS, ACK_NAMES } from '../base/latency-buckets.ts';
import type { Counter as CounterName } from '../store/ingest.ts';
import type { Status } from '../store/read.ts';

/** Bytes. */
export interface Disk {
  storeBytes: number;
  logBytes: number;
  freeBytes: number;
}

export interface Figures {
  status: Status;
  counters: Record<string, number>;
  disk: Disk;
}

/** The values of its labels, in their order. */
type Sample = [labels: string[], value: number];
/** A number has no labels; null is not known. */
type Read = (figures: Figures) => Sample[] | number | null;
export type Metric = [name: string, help: string, labels: string[], read: Read];

export const ACKS = [
  'kit_ack_seconds',
  'From the arrival of an authentic delivery to the answer that follows its commit.',
] as const;

/** What ends in `_total` is a counter, the rest are gauges. */
export const METRICS: Metric[] = [
  ['kit_events', 'Events stored.', [], ({ status }) => status.events],
  ['kit_events_unassigned', 'Events that no task was made of yet.', [], ({ status }) => status.unassigned],
  ['kit_accepted_total', 'Events accepted since the store was created.', [], counted('accepted')],
  ['kit_duplicates_total', 'Deliveries of events that were there.', [], ({ status }) => status.duplicates],
  ['kit_quarantined', 'Authentic bytes that could not be read as an event.', [], ({ status }) => status.quarantined],
  ['kit_conflicts_total', 'Arrivals that contradicted an event that was there.', [], counted('conflicts')],
  ['kit_regressions_total', 'Young events whose cursors were pruned long ago.', [], counted('regressions')],
  ['kit_refused_total', 'Deliveries refused, by cause.', ['cause'], under('refused', 1)],
  [
    'kit_signed_total',
    "The service's deliveries that the secret signed which is number N of WEBHOOK_SECRET now.",
    ['secret'],
    ({ status }) => status.secrets.map(({ number, hits }) => [[String(number)], hits]),
  ],
  [
    'kit_failure_run',
    'Authentic deliveries in a row not answered with 2xx; at 15 the service switches the webhook off.',
    [],
    ({ status }) => status.failureRun,
  ],
  [
    'kit_unseen_failures_total',
    'New events whose delivery said that earlier attempts had failed.',
    [],
    counted('unseen_failures'),
  ],
  [
    'kit_last_delivery_timestamp_seconds',
    'When the last good delivery of the service came.',
    [],
    ({ status }) => seconds(status.lastDeliveryAt),
  ],
  [
    'kit_tasks',
    'Tasks by state.',
    ['state'],
    ({ status }) => Object.entries(status.tasks).map(([state, value]) => [[state], value]),
  ],
  [
    'kit_oldest_ready_seconds',
    'Age of the oldest ready task; 0 without one.',
    [],
    ({ status }) => status.oldestReadySeconds ?? 0,
  ],
  [
    'kit_attempts_total',
    "What became of handlers' attempts: done, skipped, dead, retry, or deferred by RetryAfter.",
    ['verdict', 'handler'],
    under('attempts', 2),
  ],
  ['kit_fenced_total', 'Attempts that came back after their claim was gone.', [], counted('fenced')],
  ['kit_lane_faults_total', 'Events for which a lane function threw.', ['handler'], under('lane_faults', 1)],
  ['kit_run_crashes_total', 'Unexpected ends of the process that runs handlers.', [], counted('run_crashes')],
  [
    'kit_reconcile_state',
    '1 for the state that reconciliation is in, 0 for the others.',
    ['state'],
    ({ status }) => oneOf(['off', 'idle', 'running', 'backing-off', 'stopped'], status.reconcile.state),
  ],
  [
    'kit_reconcile_last_timestamp_seconds',
    'When reconciliation last reached the end of the history.',
    [],
    ({ status }) => seconds(status.reconcile.lastAt),
  ],
  ['kit_recovered_total', 'Events that replay brought first.', [], counted('recovered')],
  ['kit_unseen_total', 'Events of webhooks that replay did not show.', [], counted('unseen')],
  ['kit_replay_calls_total', 'Calls of ReplayEvents that were answered.', [], counted('replay_calls')],
  [
    'kit_stream_state',
    '1 for the state that the event stream is in, 0 for the others.',
    ['state'],
    ({ status }) => oneOf(['off', 'open', 'lost', 'stopped'], status.stream.state),
  ],
  ['kit_gaps_open', 'Stretches of history that can no longer be fetched.', [], ({ status }) => status.gaps],
  [
    'kit_alarm',
    '1 for each alarm that is raised.',
    ['name'],
    ({ status }) => status.alarms.map(({ name }) => [[name], 1]),
  ],
  [
    'kit_process_up',
    'Whether a process lives, as the main process knows it.',
    ['role'],
    ({ status }) => Object.entries(status.processes).map(([role, state]) => [[role], state === 'up' ? 1 : 0]),
  ],
  ['kit_store_bytes', "Size of the store's file.", [], ({ disk }) => disk.storeBytes],
  ['kit_store_log_bytes', "Size of the store's write-ahead log.", [], ({ disk }) => disk.logBytes],
  ['kit_disk_free_bytes', 'What is left on the disk of the store.', [], ({ disk }) => disk.freeBytes],
];

/** The text of /metrics, and its content type. */
export async function renderMetrics(figures: Figures): Promise<{ type: string; text: string }> {
  const registry = new Registry();
  for (const [name, help, labelNames, read] of METRICS) {
    const found = read(figures);
    const samples: Sample[] = typeof found === 'number' ? [[[], found]] : (found ?? []);
    // A metric with labels and no series would be shown as a series without a label.
    if (samples.length === 0) continue;
    const options = { name, help, labelNames, registers: [registry] };
    const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
    for (const [labels, value] of samples) metric.labels(...labels).inc(value);
  }
  return { type: registry.contentType, text: `${await registry.metrics()}\n${acksOf(figures)}` };
}

/** The store has counted into its buckets already, where prom-client's histograms want each time by itself. */
function acksOf({ counters }: Figures): string {
  const [name, help] = ACKS;
  let below = 0;
  const buckets = ACK_LE_MS.map((ms, i) => {
    below += counters[ACK_NAMES[i] ?? ''] ?? 0;
    return `${name}_bucket{le="${ms === Infinity ? '+Inf' : ms / 1_000}"} ${below}\n`;
  });
  const sum = (counters['ack.sum_us'] ?? 0) / 1e6;
  return `# HELP ${name} ${help}\n# TYPE ${name} histogram\n${buckets.join('')}${name}_sum ${sum}\n${name}_count ${below}\n`;
}

function counted(name: CounterName): Read {
  return ({ counters }) => counters[name] ?? 0;
}

/** Counters named `<prefix>.<label>.<label>`; the last label may hold dots. */
function under(prefix: string, labels: number): Read {
  return ({ counters }) =>
    Object.entries(counters).flatMap(([name, value]): Sample[] => {
      const [first, ...parts] = name.split('.');
      return first === prefix ? [[[...parts.slice(0, labels - 1), parts.slice(labels - 1).join('.')], value]] : [];
    });
}

function oneOf(states: string[], now: string): Sample[] {
  return states.map((state) => [[state], state === now ? 1 : 0]);
}

function seconds(time: string | null): number | null {
  return time === null ? null : Date.parse(time) / 1_000;
}
