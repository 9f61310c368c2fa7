// One measurement: warms a server up, sends it the deliveries, and waits until it has handled the last.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Load, Seen } from './load.ts';
import { SECRET, type Server } from './servers.ts';

export interface Measured extends Seen {
  /** Deliveries accepted and handled per second. */
  rate: number;
  /** Processor time of the server per delivery, microseconds. */
  cpuUs: number;
}

export type Wanted = Partial<Omit<Load, 'port' | 'secret'>> & { count: number };

export async function drive(server: Server, wanted: Wanted): Promise<Measured> {
  const usual = { scheme: 'service', warm: 4_000, rate: null, connections: 64, lanes: 10_000, first: 0 } as const;
  const load: Load = { ...usual, ...wanted, port: server.port, secret: SECRET };
  const sender = spawn(process.execPath, ['test/bench/load.ts', JSON.stringify(load)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: sender.stdout })[Symbol.asyncIterator]();
  const before = await server.handled();
  await lines.next();
  sender.stdin.write('warm up\n');
  await lines.next();
  await until(server, before + load.warm);
  const cpu = server.cpuMs();
  const started = performance.now();
  sender.stdin.write('go\n');
  const line = await lines.next();
  if (line.done) throw new Error('the sender failed');
  const seen = JSON.parse(line.value) as Seen;
  await until(server, before + load.warm + load.count);
  const seconds = (performance.now() - started) / 1000;
  return { ...seen, rate: load.count / seconds, cpuUs: ((server.cpuMs() - cpu) * 1000) / load.count };
}

async function until(server: Server, handled: number): Promise<void> {
  while ((await server.handled()) < handled) await sleep(10);
}
