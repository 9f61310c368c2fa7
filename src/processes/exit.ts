// How a process of the kit ended, in words, and which handler file ended it.
import { inProject } from '../base/errors.ts';
import type { ExitCause, FileFault } from './channel.ts';

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** The cause that the process itself reported. */
  cause: ExitCause | undefined;
  /** The handler file that was being loaded or set up when the process ended. */
  at: { file: string; stage: 'load' | 'setup' } | undefined;
  /** The process was killed because its event loop was blocked. */
  hung: boolean;
  livedMs: number;
}

export function howOf({ code, signal, cause, hung }: Exit): string {
  if (hung) return 'a blocked event loop (killed)';
  const at = cause?.at ? ` at ${inProject(cause.at)}` : '';
  return `${signal ?? `exit code ${code}`}${at}`;
}

/** The handler file that ended the process, while it was loaded or set up, or later by code that it had started. */
export function crashedBy(exit: Exit): FileFault | undefined {
  const { cause, at } = exit;
  const file = cause?.file ?? at?.file;
  if (file === undefined) return undefined;
  const line = cause?.at ?? file;
  const place = line === file || line.startsWith(`${file}:`) ? line : `${file}: ${line}`;
  return { file, fault: `${place}: ${wordsOf(exit)}` };
}

function wordsOf(exit: Exit): string {
  const when = exit.at?.stage === 'setup' ? 'during its setup' : 'while it was loaded';
  if (exit.hung) return `blocked its process ${when}, and was killed`;
  const end = exit.signal ?? `exit code ${exit.code}`;
  const how = exit.cause?.how === 'threw' ? 'threw an uncaught error' : `ended its process (${end})`;
  return `${how} ${exit.at ? when : 'after it was loaded'}`;
}
