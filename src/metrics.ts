// The store's counters and status as Prometheus metrics. Labels come from our own words only, never from a delivery.
import { Gauge, Registry } from 'prom-client';
import type { Status } from './store/store.ts';

/** The text of /metrics, and its content type. */
export async function renderMetrics(
  status: Status,
  counters: Record<string, number>,
): Promise<{ type: string; text: string }> {
  const registry = new Registry();
  const gauge = (name: string, help: string, values: [labels: Record<string, string>, value: number][]): void => {
    // A metric with labels and no series would be shown as a series without a label.
    if (values.length === 0) return;
    const labelNames = Object.keys(values[0]?.[0] ?? {});
    const metric = new Gauge({ name: `kit_${name}`, help, labelNames, registers: [registry] });
    for (const [labels, value] of values) metric.set(labels, value);
  };
  const one = (name: string, help: string, value: number): void => gauge(name, help, [[{}, value]]);
  const under = (prefix: string, label: string): [Record<string, string>, number][] =>
    Object.entries(counters).flatMap(([name, value]) =>
      name.startsWith(prefix) ? [[{ [label]: name.slice(prefix.length) }, value]] : [],
    );

  one('events', 'Events stored.', status.events);
  one('events_unassigned', 'Events that no task was made of yet.', status.unassigned);
  one('accepted_total', 'Events accepted since the store was created.', counters['accepted'] ?? 0);
  one('duplicates_total', 'Deliveries of events that were there.', status.duplicates);
  one('recovered_total', 'Events that replay brought first.', status.reconcile.recovered);
  one('conflicts_total', 'Arrivals that contradicted an event that was there.', status.conflicts);
  one('quarantined', 'Authentic bytes that could not be read as an event.', status.quarantined);
  one('replay_calls_total', 'Calls of ReplayEvents that were answered.', counters['replay_calls'] ?? 0);
  gauge('refused_total', 'Deliveries refused, by cause.', under('refused.', 'cause'));
  gauge(
    'signed_total',
    "The service's deliveries that the secret signed which is number N of WEBHOOK_SECRET now.",
    status.secrets.map(({ number, hits }) => [{ secret: String(number) }, hits]),
  );
  gauge(
    'tasks',
    'Tasks by state.',
    Object.entries(status.tasks).map(([state, value]) => [{ state }, value]),
  );
  one('oldest_ready_seconds', 'Age of the oldest ready task.', status.oldestReadySeconds ?? 0);
  one('gaps_open', 'Stretches of history that can no longer be fetched.', status.gaps);
  one(
    'failure_run',
    'Authentic deliveries in a row not answered with 2xx; at 15 the service switches the webhook off.',
    status.failureRun,
  );
  one(
    'unseen_failures_total',
    'New events whose delivery said that earlier attempts had failed.',
    counters['unseen_failures'] ?? 0,
  );
  gauge(
    'process_up',
    'Whether a process has shown life lately.',
    Object.entries(status.processes).map(([role, state]) => [{ role }, state === 'up' ? 1 : 0]),
  );
  gauge(
    'alarm',
    'Alarms that are raised.',
    status.alarms.map(({ name }) => [{ name }, 1]),
  );
  return { type: registry.contentType, text: await registry.metrics() };
}
