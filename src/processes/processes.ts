// The processes beside the main one: `run`, `keep`, and up to eight for suspects (tasks whose process died).
import { randomUUID } from 'node:crypto';
import { hostname, totalmem } from 'node:os';
import { EXIT } from '../base/errors.ts';
import { envOfRun } from '../base/secrets.ts';
import type { Logger } from '../base/log.ts';
import type { Env } from '../config.ts';
import type { Report, RunArgs } from './channel.ts';
import { Supervised, type SupervisedOptions } from './supervised.ts';

/** Processes get this long to end before they are killed: longer than DRAIN_MS in run/main.ts. */
export const STOP_MS = 8_500;
const SLOTS = 8;
const INSTANCE = `${hostname()} ${randomUUID()}`;
/** If `run` takes more memory than this, it is drained and started anew. */
const MEMORY_BYTES = Math.min(2 ** 32, process.constrainedMemory() || Infinity, totalmem()) / 2;
const NODE = {
  // MB for young objects. `run` keeps events for ORDER_WINDOW_MS; with less room the garbage collector would copy them.
  // The main process has its limit in main.ts: after 80,000 events it took 150 MB, with 8 140 (and 6 % more time), without 218.
  run: ['--max-semi-space-size=16'],
  keep: ['--optimize-for-size', '--max-semi-space-size=1'],
};
/** The option of a debugger, for breakpoints in handlers: only `run` gets it. */
const INSPECT = process.argv.filter((arg) => arg.startsWith('--inspect='));

/** `newest`: the number of the newest event at the start or reload. */
export type ProcessesOptions = { env: () => Env; newest: () => number; log: Logger };

export class Processes {
  readonly #options: ProcessesOptions;
  readonly #run: Supervised;
  readonly #keep: Supervised;
  readonly #slots: Supervised[];
  #without: Record<string, string> = {};
  #loading: string | undefined;
  #failedStarts = 0;

  constructor(options: ProcessesOptions) {
    const { env, log } = options;
    this.#options = options;
    this.#keep = new Supervised({ role: 'keep', entry: 'keep/main.ts', node: NODE.keep, args: () => [], env, log });
    this.#run = new Supervised({
      ...this.#runAs('live'),
      onReport: (report) => this.#hear(report),
      onDeath: (how) => this.#leaveOut(how),
    });
    this.#slots = Array.from({ length: SLOTS }, (_, n) => new Supervised(this.#runAs(`suspect-${n + 1}`)));
  }

  start(): void {
    this.#run.start();
    this.#keep.start();
  }

  /** Tells `run` that there are new events. */
  wake(): void {
    this.#run.wake();
  }

  /** Call it each second. */
  tick(): void {
    for (const one of this.#all()) one.tick();
  }

  states(): Record<'run' | 'keep', 'up' | 'down'> {
    return { run: this.#run.isUp ? 'up' : 'down', keep: this.#keep.isUp ? 'up' : 'down' };
  }

  /** Restarts the processes, with the present environment and handler files. */
  async reload(): Promise<void> {
    this.#without = {};
    await Promise.all(this.#slots.map((slot) => slot.stop(STOP_MS)));
    await this.#run.stop(STOP_MS, true);
    await this.#keep.stop(STOP_MS, true);
    for (const slot of this.#slots) await slot.stop(0, true);
  }

  async stop(limitMs = STOP_MS): Promise<void> {
    // A reload that goes on may start one again.
    do await Promise.all(this.#all().map((one) => one.stop(limitMs)));
    while (this.#all().some((one) => one.isRunning()));
  }

  #all(): Supervised[] {
    return [this.#run, ...this.#slots, this.#keep];
  }

  #runAs(role: RunArgs['role']): SupervisedOptions {
    const { env, newest, log } = this.#options;
    const args = (again: boolean): string[] => {
      const restart = again || role !== 'live';
      const told: RunArgs = { instance: INSTANCE, role, restart, newest: newest(), without: this.#without };
      return [JSON.stringify(told)];
    };
    const name = role === 'live' ? 'run' : role;
    const node = [...NODE.run, ...(role === 'live' ? INSPECT : [])];
    return { role: name, entry: 'run/main.ts', node, args, env: () => envOfRun(env()), log };
  }

  #hear(report: Report): void {
    if (report.type === 'wake') this.#keep.wake();
    if (report.type === 'loading') this.#loading = report.file;
    if (report.type === 'ready') [this.#loading, this.#failedStarts] = [undefined, 0];
    if (report.type !== 'alive') return;
    for (const slot of this.#slots.slice(0, report.suspects)) {
      slot.start();
      slot.wake();
    }
    if (report.rss < MEMORY_BYTES) return;
    this.#options.log.error(
      { rss: report.rss, limit: MEMORY_BYTES },
      'the process run takes too much memory, so it is restarted',
    );
    void this.#run.stop(STOP_MS, true);
  }

  /** If `run` dies twice in a row as it loads or sets up files, the last one is left out: one death may be a kill. */
  #leaveOut(how: string): void {
    // With this exit code, the store was at fault.
    if (how !== `exit code ${EXIT.unreachable}` && this.#loading !== undefined && ++this.#failedStarts > 1)
      this.#without[this.#loading] = `the process run died twice as it started, last with this file (${how})`;
    this.#loading = undefined;
  }
}
