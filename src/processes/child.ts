// The child's side of the channel: signs of life, orders, and its end with the main process.
import { flushCompileCache } from 'node:module';
import { EXIT } from '../base/errors.ts';
import { say } from './channel.ts';

const ALIVE_MS = 1_000;

export interface Child {
  wake: () => void;
  /** SIGTERM. The process ends itself. */
  stop: () => unknown;
}

export function onOrders({ wake, stop }: Child): void {
  process.on('message', wake);
  process.once('SIGTERM', stop);
  // A process that is killed would not keep what it has compiled.
  flushCompileCache();
}

/** Call it first of all: what takes longer than 10 s is announced by `longer`. */
export function beginChild(suspects: () => number = () => 0): void {
  // A terminal sends it to every process; the main process then stops its children.
  process.on('SIGINT', () => {});
  // Nobody is left who would restart it, or answer deliveries.
  process.on('disconnect', () => process.exit(EXIT.failed));
  const alive = (): void => void say({ type: 'alive', rss: process.memoryUsage.rss(), suspects: suspects() });
  setInterval(alive, ALIVE_MS).unref();
  alive();
}
