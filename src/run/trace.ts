// Who did it: what goes astray in this process, or ends it, is traced to the attempt or to the handler's file in whose
// course it began.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { describe, EXIT, handlersLine } from '../base/errors.ts';
import type { LastWords } from '../processes/channel.ts';

/** What asynchronous work belongs to: an attempt, or the loading of a file. */
export interface Course {
  handler?: string;
  key?: string;
  file?: string;
  /** False where it has ended already: then somebody else has to say so. */
  fail(error: unknown): boolean;
}

export interface TraceOptions {
  courses: AsyncLocalStorage<Course>;
  /** A rejection of a course that has ended, or of none; the process goes on. */
  onStray: (who: Partial<LastWords>, error: unknown) => void;
  /** Said before this process ends by other hands than ours: synchronously. */
  onEnd: (words: LastWords, error?: unknown) => void;
}

export function traceStray({ courses, onStray, onEnd }: TraceOptions): void {
  let ending = false;
  process.on('unhandledRejection', (error) => {
    const course = courses.getStore();
    if (!course?.fail(error)) onStray(nameOf(course), error);
  });
  process.on('uncaughtException', (error) => {
    const course = courses.getStore();
    if (course?.fail(error)) return;
    ending = true;
    onEnd({ ...nameOf(course), code: EXIT.failed, at: describe(error).at, threw: true }, error);
    process.exit(EXIT.failed);
  });
  process.on('exit', (code) => {
    const course = courses.getStore();
    const at = handlersLine(new Error('exit').stack);
    // Our own way out.
    if (ending || (!course && !at)) return;
    onEnd({ ...nameOf(course), code, at, threw: false });
  });
}

function nameOf(course: Course | undefined): Partial<LastWords> {
  const { handler, key, file } = course ?? {};
  return { ...(handler && { handler }), ...(key && { key }), ...(file && { file }) };
}
