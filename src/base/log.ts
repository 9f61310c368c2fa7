// One line a fact, written at once: a killed process has said all it knew. Never a body, a secret or a phone number;
// callers name the fields that they log, and errors go through `loggable`.
import { pino, type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { Clock } from './clock.ts';

export type { Logger };

export interface LogOptions {
  level: string;
  format: 'json' | 'pretty';
}

export function createLog(role: string, { level, format }: LogOptions): Logger {
  const stream =
    format === 'pretty'
      ? pretty({ sync: true, ignore: 'pid,hostname,process', messageFormat: '{process} {msg}' })
      : pino.destination({ fd: 1, sync: true });
  return pino({ level, base: { process: role }, timestamp: pino.stdTimeFunctions.isoTime }, stream);
}

const FLOOD_MS = 10_000;

/**
 * For lines that can come in floods: of each kind the first `burst` within ten seconds are said, the others counted, and
 * told with the next as `more`. Undefined: say nothing. Kinds are words of ours: each is remembered.
 */
export type Seldom = (kind: string) => { more?: number } | undefined;

export function createSeldom(clock: Clock, burst = 1): Seldom {
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
