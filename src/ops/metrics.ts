// What Prometheus reads: the status as numbers.
import { Counter, Gauge, Registry } from 'prom-client';
import { reconcileOf } from '../operations/judge.ts';
import { statusOf } from '../operations/status.ts';
import type { Disk, Facts } from '../operations/store/shapes.ts';
import { NAMES } from '../store/counts.ts';

export async function metricsOf(facts: Facts, disk: Disk): Promise<{ type: string; text: string }> {
  const registry = new Registry();
  const status = statusOf(facts, disk);
  const { recovered, lastAt } = reconcileOf(facts);
  const gauge = (name: string, help: string, value: number): void =>
    new Gauge({ name: `kit_${name}`, help, registers: [registry] }).set(value);
  const counter = (name: string, help: string, value: number): void =>
    new Counter({ name: `kit_${name}`, help, registers: [registry] }).inc(Math.max(0, value));
  const by = (name: string, help: string, label: string, values: [string, number][]): void => {
    const all = new Gauge({ name: `kit_${name}`, help, labelNames: [label], registers: [registry] });
    for (const [of, value] of values) all.set({ [label]: of }, value);
  };
  const causes = Object.entries(facts.state as Record<string, number>).flatMap(([name, n]): [string, number][] =>
    name.startsWith('refused.') ? [[name.slice('refused.'.length), n]] : [],
  );
  const up = Object.entries(status.processes).map(([name, is]): [string, number] => [name, Number(is === 'up')]);
  gauge('events', 'events in the store', status.events);
  gauge('instances', 'kits that run handlers on this store', status.instances);
  counter('duplicates_total', 'deliveries of events already stored', status.duplicates);
  counter('quarantined_total', 'authentic bytes that are unreadable, or contradict a stored event', status.quarantined);
  counter('recovered_total', 'events first stored by replay', recovered);
  by('refused_total', 'refused requests by cause', 'cause', causes);
  by('tasks', 'tasks by state', 'state', Object.entries(status.tasks));
  for (const name of NAMES) {
    const rows = facts.handlers.map((one): [string, number] => [one.name, one[name]]);
    by(`handler_${name}`, `${name === 'failed' ? 'failed attempts' : `${name} tasks`} of a handler`, 'handler', rows);
  }
  gauge('behind_events', 'events that the handler furthest behind has not yet taken up', status.behind);
  gauge('oldest_waiting_seconds', 'wait of the oldest due or failing task or event', status.oldestWaitingSeconds ?? 0);
  gauge('failures_in_a_row', 'deliveries in a row that got no 2xx', status.failuresInARow);
  gauge('gaps', 'open gaps: history that the service can no longer show', status.gaps);
  gauge('last_reconcile_timestamp_seconds', 'when history was last read to its end', (lastAt ?? 0) / 1_000);
  by('process_up', 'whether a process is up', 'process', up);
  by('alarm', 'alarms that are raised', 'alarm', [...new Map(status.alarms.map(({ name }) => [name, 1]))]);
  gauge('store_log_bytes', "the size of the store's WAL file", disk.logBytes);
  gauge('disk_free_bytes', 'free bytes on the disk of the store', disk.freeBytes);
  return { type: registry.contentType, text: await registry.metrics() };
}
