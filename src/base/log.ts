// The log: one line for each fact, written synchronously, so that a kill loses none. No line of the kit holds a body, a
// secret or a phone number: callers name the fields, and what a handler throws on an event goes through `loggable`.
import { pino, type Logger } from 'pino';
import type { Clock } from './clock.ts';
import { masked } from './secrets.ts';

export type { Logger };

export function createLog(role: string, level: string): Logger {
  const destination = pino.destination({ fd: 1, sync: true });
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // The terminal, or the program that read the log, is gone: nobody reads further lines, so they are dropped.
    if (error.code !== 'EIO' && error.code !== 'EPIPE') throw error;
  });
  const hooks = { streamWrite: (line: string) => masked(line) };
  const options = { level, base: { process: role }, timestamp: pino.stdTimeFunctions.isoTime, hooks };
  return pino(options, destination);
}

const FLOOD_MS = 10_000;

/** For lines that can come in floods: whether to log a line of this kind now. True at most once in ten seconds. */
export type Throttle = (kind: string) => boolean;

export function createThrottle(clock: Clock): Throttle {
  const kinds = new Map<string, number>();
  return (kind) => {
    const now = clock.monotonic();
    if (now - (kinds.get(kind) ?? -Infinity) < FLOOD_MS) return false;
    kinds.set(kind, now);
    return true;
  };
}
