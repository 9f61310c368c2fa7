// The child's side of the channel: signs of life, orders, and the child's end if the main process dies.
import { flushCompileCache } from 'node:module';
import { EXIT } from '../base/errors.ts';
import { say } from './channel.ts';

const ALIVE_MS = 1_000;

/** `stop`: called at SIGTERM. It must end the process. */
export function onOrders({ wake, stop }: { wake: () => void; stop: () => unknown }): void {
  process.on('message', wake);
  process.once('SIGTERM', stop);
  // Saves compiled code now, because a process that is killed later would not save any.
  flushCompileCache();
}

/** Call it first of all. A child that is ready is killed after 10 s of silence, or after what `longer` allows. */
export function beginChild(suspects: () => number = () => 0): void {
  // A terminal sends SIGINT to every process. A child ignores it, because the main process stops its children.
  process.on('SIGINT', () => {});
  // The main process is gone: nobody would restart this process, or answer deliveries.
  process.on('disconnect', () => process.exit(EXIT.failed));
  const alive = (): void => void say({ type: 'alive', rss: process.memoryUsage.rss(), suspects: suspects() });
  setInterval(alive, ALIVE_MS).unref();
  alive();
}
