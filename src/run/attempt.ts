// One attempt: a handler runs on a claimed task. Whatever the handler does becomes an outcome, unless it ends the
// process. Once the attempt is over, its `ctx` commits nothing and makes no calls of the service.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as immediate } from 'node:timers/promises';
import { loggable } from '../base/errors.ts';
import type { Throttle } from '../base/log.ts';
import type { Outcome } from '../store/work.ts';
import { AttemptContext, type ContextOptions } from './context.ts';
import { afterThrow, attemptOf, beforeRun } from './outcome.ts';
import { Scope } from './stray.ts';

export interface AttemptOptions extends ContextOptions {
  scopes: AsyncLocalStorage<Scope>;
  throttle?: Throttle;
}

export interface Attempt {
  /** Null: the attempt does not count, and the task waits again. Never rejects. */
  done: Promise<Outcome | null>;
  /** Called when the kit stops: aborts the handler's signal. A failure after this does not count. */
  drain(): void;
  /** Ends the attempt now. It does not count, unless `ctx.complete` has ended the task. */
  abandon(): void;
}

export function startAttempt(options: AttemptOptions): Attempt {
  const { task, event, handler, clock, scopes } = options;
  const scope = new Scope(handler.file, { handler: handler.name, key: event.key });
  const context = new AttemptContext(options);
  let draining = false;

  /** Runs in the scope, because an abort calls the handler's listeners on the signal. */
  const end = (reason: string, isOver: boolean): void => scopes.run(scope, () => context.end(reason, isOver));

  async function run(): Promise<Outcome | null> {
    const given = event.event;
    const unrun = beforeRun(task, handler, event, clock.now());
    if (unrun || !given) return unrun;
    try {
      const handled: unknown = scopes.run(scope, () => handler.handle(given, context));
      if (handled !== undefined) await scope.wait(handled, handler.timeoutMs);
    } catch (error) {
      scope.fail(error);
    }
    end('the attempt has ended', true);
    if (context.completing && !context.completed) {
      await context.completing;
      // Node reports unawaited rejections while this waits.
      await immediate();
    }
    scope.close();
    if (context.completed) return { event: task.event, as: 'completed', error: null };
    if (!scope.failure) return { event: task.event, as: 'done', error: null };
    return afterThrow(scope.failure.error, { task, handler, now: clock.now(), draining });
  }

  const done = run();
  void done.then((outcome) => logEnd(options, outcome, scope.failure));
  return {
    done,
    drain() {
      draining = true;
      end('the kit stops', false);
    },
    abandon() {
      draining = true;
      scope.fail(new Error('the kit stops'));
    },
  };
}

const WORDS = {
  again: 'the attempt failed, and the task will be tried again: see npx kit explain',
  dead: 'the task is a dead letter: see npx kit explain',
  completed: 'the attempt failed after ctx.complete; the task stays done',
};

/** Logs failures only, without the error's message, which may quote a sender's text. */
function logEnd(options: AttemptOptions, outcome: Outcome | null, failure: Scope['failure']): void {
  const { log, throttle, handler, event, task } = options;
  if (!outcome || outcome.as === 'done' || outcome.as === 'skipped') return;
  if (outcome.as === 'completed' && !failure) return;
  if (throttle?.(`${outcome.as} ${handler.name}`) === false) return;
  const error = failure && loggable(failure.error, handler.file);
  const fields = { handler: handler.name, key: event.key, attempt: attemptOf(task), ...error };
  log[outcome.as === 'dead' ? 'error' : 'warn'](fields, WORDS[outcome.as]);
}
