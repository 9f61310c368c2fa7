// Asks an operation as every surface does, and counts the tasks that the handlers' counters should count.
import { tell } from '../../src/operations/store/open.ts';
import { loadConfig } from '../../src/config.ts';
import { OPERATIONS } from '../../src/operations/all.ts';
import { checked } from '../../src/operations/define.ts';
import type { World } from '../store/fixture.ts';

export const UP = { receive: 'up', run: 'up', keep: 'up' };

export async function ask<Answer = unknown>(
  world: World,
  name: string,
  args: object = {},
  file = '',
  env: Record<string, string> = {},
): Promise<Answer> {
  const operation = OPERATIONS.find((one) => one.name === name);
  if (!operation) throw new Error(`no operation ${name}`);
  const disk = () => ({ folder: '', logBytes: 0, freeBytes: 2 ** 40 });
  const config = () => loadConfig({ WEBHOOK_SECRET: 'whsec_test', DATABASE_URL: `sqlite:${file || 'x.db'}`, ...env });
  const context = { db: world.people, clock: world.clock, disk, config };
  return (await operation.run(context, checked(operation, { ...args }))) as Answer;
}

/** What main and the reconciler report while all is well. */
export async function report(world: World, reconcile: object = {}): Promise<void> {
  await tell(world.people, 'kit', { at: world.now, pid: 1, version: '2', processes: UP });
  const idle = { state: 'idle', lastAt: world.now, reason: null, recovered: 0 };
  await tell(world.people, 'reconcile', { ...idle, ...reconcile });
}

/** Each is [what the counters say, what the tasks are]. */
export function counted(world: World): [unknown, unknown] {
  const states = ['waiting', 'done', 'skipped', 'dead'];
  const counts = states.map(
    (name, n) => `(select count(*) from tasks where handler = h.id and state = ${n}) as ${name}`,
  );
  return [
    world.rows(`select ${states.join()} from handlers order by id`),
    world.rows(`select ${counts.join()} from handlers h order by id`),
  ];
}
