// The handler's `ctx`: what an attempt knows, and what it commits while its claim holds. Most handlers use little of
// `ctx`, so its costly parts are made when they are first used.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Context } from '../kit.ts';
import type { Service } from '../service/service.ts';
import type { Claim, Claimed, SqlRow, SqlValue, Work, WorkStore } from '../store/work.ts';
import type { ReadEvent } from './event.ts';
import type { Loaded } from './load.ts';
import { attemptOf } from './outcome.ts';

export interface ContextOptions {
  store: Pick<WorkStore, 'note' | 'complete' | 'read'>;
  clock: Clock;
  log: Logger;
  /** The client for the service. The signal aborts its calls. */
  serviceFor: (signal: AbortSignal) => Service;
  claim: Claim;
  task: Claimed;
  event: ReadEvent;
  handler: Loaded;
}

/** Limits of a note: bytes of its JSON, characters of its name. The store limits how many notes a task has. */
const NOTE = { bytes: 1_024, name: 100 };
const GONE = 'the claim is gone: this attempt has ended or timed out, or another process was given the task';
const COMPLETED = 'ctx.complete has ended this task: call it once, and ctx.note before it';

export class AttemptContext implements Context {
  completed = false;
  /** Resolves when every call of `complete` has ended. Undefined: there was no call. */
  completing: Promise<unknown> | undefined;
  readonly #options: ContextOptions;
  readonly #task: { event: number; handler: number };
  /** True: the attempt is over. Its claim may still hold, for the next task of the chain. */
  #over = false;
  /** Why the signal is aborted. */
  #ended: string | undefined;
  #abort: AbortController | undefined;
  #log: Logger | undefined;
  #service: Service | undefined;
  #notes: Readonly<Record<string, unknown>> | undefined;

  constructor(options: ContextOptions) {
    this.#options = options;
    this.#task = { event: options.task.event, handler: options.claim.handler };
  }

  get log(): Logger {
    const { log, handler, event } = this.#options;
    return (this.#log ??= log.child({ handler: handler.name, key: event.key }));
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#ended) this.#abort.abort(new Error(this.#ended));
    return this.#abort.signal;
  }

  get attempt(): number {
    return attemptOf(this.#options.task);
  }

  get late(): boolean {
    return this.#options.task.late;
  }

  get lagMs(): number | null {
    const { clock, event } = this.#options;
    return event.createdAt === null ? null : Math.max(0, clock.now() - event.createdAt);
  }

  get idempotencyKey(): string {
    return `${this.#options.handler.name}/${this.#options.event.key}`;
  }

  get service(): Service {
    return (this.#service ??= this.#options.serviceFor(this.signal));
  }

  get notes(): Readonly<Record<string, unknown>> {
    return (this.#notes ??= Object.freeze({ ...this.#options.task.notes }));
  }

  async note(name: string, value: unknown): Promise<void> {
    const json = noteOf(name, value);
    this.#check();
    const { store, claim } = this.#options;
    if (!(await store.note(claim, this.#task, name, json))) throw new Error(GONE);
    this.#notes = Object.freeze({ ...this.notes, [name]: JSON.parse(json) as unknown });
  }

  read(sql: string, ...values: SqlValue[]): Promise<SqlRow[]> {
    return this.#options.store.read(sql, values);
  }

  async complete(work: Work): Promise<void> {
    const ended = Promise.withResolvers<void>();
    // Waits for `ended`, not for this call's promise: Node reports its rejection only if nobody else waits for it.
    this.completing = Promise.all([this.completing, ended.promise]);
    try {
      this.#check();
      const { store, claim } = this.#options;
      if (!(await store.complete(claim, this.#task, work))) throw new Error(GONE);
      this.completed = true;
    } finally {
      ended.resolve();
    }
  }

  /** Aborts the signal. `over`: from now on, no commit begins. */
  end(reason: string, over: boolean): void {
    this.#ended ??= reason;
    this.#over ||= over;
    this.#abort?.abort(new Error(reason));
  }

  #check(): void {
    if (this.completed) throw new Error(COMPLETED);
    if (this.#over) throw new Error(GONE);
  }
}

/** The JSON of a note's value. Throws if the note exceeds its limits. */
function noteOf(name: string, value: unknown): string {
  if (typeof name !== 'string' || name === '' || name.length > NOTE.name || !/^[^\0\p{Cs}]*$/u.test(name))
    throw new Error(`ctx.note: the name must be a string of 1 to ${NOTE.name} characters of Unicode, without NUL`);
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined) throw new Error(`ctx.note: the value of ${JSON.stringify(name)} cannot be written as JSON`);
  if (Buffer.byteLength(json) > NOTE.bytes)
    throw new Error(`ctx.note: the value of ${JSON.stringify(name)} exceeds ${NOTE.bytes} bytes of JSON`);
  return json;
}
