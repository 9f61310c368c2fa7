// The options for running handlers: many at once (runner.ts), or one isolated task at a time (isolation.ts).
import type { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { Context } from '../kit.ts';
import type { Store } from '../store/store.ts';
import type { HandlerFiles, WorkStore } from '../store/work.ts';
import type { Loaded } from './load-handlers.ts';
import type { Scope } from './stray-errors.ts';

export interface RunOptions {
  store: WorkStore;
  handlers: Loaded[];
  files?: HandlerFiles;
  serviceFor: ServiceFor;
  clock: Clock;
  log: Logger;
  boot: number;
  concurrency: number;
  windowMs: number;
  onLaneFault?: (handler: Loaded) => void;
  /** Called when new strict tasks wait for the watermark, so that replay reads on at once. */
  onUnproven?: () => void;
  /** Logs error messages too. They may quote a stranger's text, so this is only for `npm run dev`. */
  tellsWhy?: boolean;
  /** Holds the attempt or file that started the current asynchronous work, so that stray errors can be traced to it. */
  scopes?: AsyncLocalStorage<Scope>;
}

/** Returns `ctx.service` for one attempt. The signal aborts its calls. */
export type ServiceFor = (ends: AbortSignal) => ServiceOf<Context>;
/** Undefined if the module `service` was deleted. */
export type ServiceOf<Given> = Given extends { readonly service: infer Service } ? Service : undefined;

/** The parts that modules may add to the `run` process. */
export interface RunModules {
  serviceOf?: (options: { config: Config; store: Pick<Store, 'state'>; clock: Clock; log: Logger }) => ServiceFor;
}

export interface AttemptOptions extends Required<Pick<RunOptions, 'serviceFor' | 'clock' | 'log' | 'scopes'>> {
  store: Pick<WorkStore, 'complete' | 'noteTask' | 'read'>;
}
