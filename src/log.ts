// One line a fact, written at once: a killed process has said all it knew. Never a body, a secret or a phone number;
// callers name the fields that they log, and errors go through `loggable`.
import { pino, type Logger } from 'pino';
import pretty from 'pino-pretty';

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
