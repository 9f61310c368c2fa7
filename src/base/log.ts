// The log output: one line for each fact, written synchronously so that a kill loses none. A line never holds a body, a
// secret or a phone number. Callers name the fields to log, and errors go through `loggable`.
import { createRequire } from 'node:module';
import { pino, type DestinationStream, type Logger } from 'pino';
import type Pretty from 'pino-pretty';
import type { Clock } from './clock.ts';
import { masked } from './secrets.ts';
import { withShownEscapes } from './unseen.ts';

export type { Logger };

export function createLog(role: string, { level, format }: { level: string; format: 'json' | 'pretty' }): Logger {
  const destination = pino.destination({ fd: 1, sync: true });
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // The terminal is gone, so nobody reads the lines of the stop.
    if (error.code !== 'EIO') throw error;
  });
  const isPretty = format === 'pretty';
  const hooks = { streamWrite: (line: string) => (isPretty ? withShownEscapes(masked(line)) : masked(line)) };
  const options = { level, base: { process: role }, timestamp: pino.stdTimeFunctions.isoTime, hooks };
  return pino(options, isPretty ? prettied(destination) : destination);
}

/** Loaded only if it is used, because each process would keep it in memory. */
function prettied(destination: DestinationStream): DestinationStream {
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof Pretty;
  return pretty({ destination, ignore: 'pid,hostname,process', messageFormat: '{process} {msg}' });
}

const FLOOD_MS = 10_000;

/**
 * Throttles lines that can come in floods. Of each kind, the first `burst` lines within ten seconds are logged and the
 * others are counted. The next line carries the count as `more`. Undefined: do not log. Kinds stay in memory, so never
 * make one from a sender's text.
 */
export type Throttle = (kind: string) => { more?: number } | undefined;

export function createThrottle(clock: Clock, burst = 1): Throttle {
  const kinds = new Map<string, { since: number; said: number; more: number }>();
  return (kind) => {
    const now = clock.monotonic();
    const known = kinds.get(kind);
    if (known && now - known.since < FLOOD_MS) {
      if (known.said++ < burst) return {};
      known.more++;
      return undefined;
    }
    kinds.set(kind, { since: now, said: 1, more: 0 });
    return known?.more ? { more: known.more } : {};
  };
}
