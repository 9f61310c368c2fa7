// What Prometheus reads: the status in numbers.
import { Counter, Gauge, Registry } from 'prom-client';
import { alarmsOf, type Disk } from '../operations/alarms.ts';
import { failuresOf, reconcileOf } from '../operations/judge.ts';
import { statusOf } from '../operations/status.ts';
import type { Facts } from '../operations/store/shapes.ts';

export async function metricsOf(facts: Facts, disk: Disk, version: string): Promise<{ type: string; text: string }> {
  const registry = new Registry();
  const status = statusOf(facts, disk, version);
  const gauge = (name: string, help: string, value: number | null): void => {
    if (value !== null) new Gauge({ name: `kit_${name}`, help, registers: [registry] }).set(value);
  };
  const counter = (name: string, help: string, value: number): void =>
    new Counter({ name: `kit_${name}`, help, registers: [registry] }).inc(Math.max(0, value));
  const by = (name: string, help: string, label: string, values: [string, number][]): void => {
    const all = new Gauge({ name: `kit_${name}`, help, labelNames: [label], registers: [registry] });
    for (const [of, value] of values) all.set({ [label]: of }, value);
  };
  gauge('events', 'events in the store', status.events);
  counter('duplicates_total', 'deliveries of events that were there', status.duplicates);
  counter('quarantined_total', 'authentic bytes that are no new, readable event', status.quarantined);
  counter('recovered_total', 'events first stored by replay', reconcileOf(facts).recovered);
  by(
    'refused_total',
    'refused requests by cause',
    'cause',
    Object.entries(facts.counters).flatMap(([name, n]) => (name.startsWith('refused.') ? [[name.slice(8), n]] : [])),
  );
  by('tasks', 'tasks by state', 'state', Object.entries(status.tasks));
  for (const name of ['waiting', 'done', 'skipped', 'dead', 'failed'] as const)
    by(
      `handler_${name}`,
      `${name === 'failed' ? 'failed attempts' : `${name} tasks`} of a handler`,
      'handler',
      facts.handlers.map((handler) => [handler.name, handler[name]]),
    );
  gauge('behind_events', 'events that the handler furthest behind has not taken up', status.behind);
  gauge(
    'oldest_waiting_seconds',
    'how long the longest waiting task has been due or failing',
    status.oldestWaitingSeconds ?? 0,
  );
  gauge('failures_in_a_row', 'deliveries in a row that got no 2xx', failuresOf(facts));
  gauge('gaps', 'open stretches of history that cannot be fetched', status.gaps);
  gauge(
    'last_reconcile_timestamp_seconds',
    'when history was last read to its end',
    (reconcileOf(facts).lastAt ?? 0) / 1_000,
  );
  by(
    'process_up',
    'whether a process works',
    'process',
    Object.entries(status.processes).map(([name, at]) => [name, at === 'up' ? 1 : 0]),
  );
  by('alarm', 'alarms that stand', 'alarm', [...new Map(alarmsOf(facts, disk).map(({ name }) => [name, 1]))]);
  gauge('store_log_bytes', "the store's log", disk.logBytes);
  gauge('disk_free_bytes', 'free on the disk of the store', disk.freeBytes);
  return { type: registry.contentType, text: await registry.metrics() };
}
