// The output of commands: text, JSON, progress, errors.
import { EXIT } from '../../base/errors.ts';
import { UNSEEN } from '../../base/unseen.ts';

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(inert(JSON.stringify(value, null, 2)));
}

/** Prints an error, and returns the exit code. */
export function fail(message: string, code: number = EXIT.failed): number {
  process.stderr.write(`${message}\n`);
  return code;
}

export function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}

/** Prints progress after every thousand tasks, if there are more than a thousand. */
export function progress(done: number, of: number): void {
  if (of > 1_000 && done > 0 && (done % 1_000 === 0 || done === of)) process.stderr.write(`${done} of ${of}\n`);
}

/** Replaces characters that can control a terminal, because stored text may hold them. */
export function clean(text: string): string {
  return text.replaceAll(UNSEEN, '\u{fffd}').replaceAll(/[\t\n]/g, '\u{fffd}');
}

/**
 * Writes characters that can control a terminal as `\uXXXX`, so that the JSON means the same. Outside of strings, JSON
 * can hold only one such character, the carriage return, which is removed.
 */
export function inert(json: string): string {
  return json.replaceAll(UNSEEN, (sign) =>
    sign === '\r' ? '' : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
