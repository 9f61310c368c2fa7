// One child process: it is forked, watched for signs of life, restarted with growing pauses, and stopped.
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Logger } from '../base/log.ts';
import type { Env } from '../config.ts';
import type { Report } from './channel.ts';

/** Limits of silence, in ticks of one second. By the clock, children would seem silent after a suspension. */
const SILENT_TICKS = 10;
const STARTING_TICKS = 30;
const PAUSE_MS = { first: 100, most: 30_000 };
/** A child that lived for this long restarts after the shortest pause. */
const HEALTHY_MS = 10_000;

const CACHE = process.env['NODE_COMPILE_CACHE'];

export interface SupervisedOptions {
  role: string;
  /** The entry file, relative to src. */
  entry: string;
  node: string[];
  /** The arguments of each start. `restart`: this main process has started this role before. */
  args: (restart: boolean) => string[];
  env: () => Env;
  log: Logger;
  onReport?: (report: Report) => void;
  /** Called when the child died, and was not told to stop. */
  onDeath?: (how: string) => void;
}

export class Supervised {
  /** The child has said that it is ready. */
  isUp = false;
  readonly #options: SupervisedOptions;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #silent = 0;
  #limit = STARTING_TICKS;
  #pauseMs = PAUSE_MS.first;
  #restart = false;
  #stopping = false;
  #beganLast: string | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SupervisedOptions) {
    this.#options = options;
  }

  isRunning(): boolean {
    return this.#child !== undefined || this.#timer !== undefined;
  }

  start(): void {
    if (this.isRunning() || this.#stopping) return;
    const { role, entry, node, args, env, log } = this.#options;
    const since = performance.now();
    const file = fileURLToPath(new URL(`../${entry}`, import.meta.url));
    const child = fork(file, args(this.#restart), {
      env: { NODE_COMPILE_CACHE: CACHE, ...env() },
      execArgv: [...process.execArgv, ...node],
    });
    this.#child = child;
    this.#restart = true;
    this.#silent = 0;
    this.#limit = STARTING_TICKS;
    this.#beganLast = undefined;
    child.on('message', (report: Report) => this.#hear(report));
    child.on('error', ({ message: why }) => log.error({ role, why }, `${role} cannot be started`));
    this.#exited = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        this.#child = undefined;
        this.isUp = false;
        if (!this.#stopping && code !== 0) this.#died(signal ?? `exit code ${code}`, performance.now() - since);
        resolve();
      }),
    );
  }

  /** Any message wakes the child, because orders to stop are signals. */
  wake(): void {
    if (this.#child?.connected) this.#child.send('wake', () => {});
  }

  /** Call it each second. */
  tick(): void {
    // A child at a breakpoint gives no sign of life, and must not be killed.
    if (this.#options.node.some((option) => option.startsWith('--inspect'))) return;
    if (this.#child && ++this.#silent === this.#limit) {
      const { log, role } = this.#options;
      log.error({ seconds: this.#limit, beganLast: this.#beganLast }, `${role} gives no sign of life: killing it`);
      this.#child.kill('SIGKILL');
    }
  }

  /** Sends SIGTERM, and SIGKILL after the limit. `again`: the child may start again, at once if it was running. */
  async stop(limitMs: number, again = false): Promise<void> {
    const wasThere = this.isRunning();
    // A second SIGTERM would end the child at once.
    if (!this.#stopping) this.#child?.kill('SIGTERM');
    this.#stopping = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), limitMs);
    await this.#exited;
    clearTimeout(timer);
    this.#stopping = !again;
    if (wasThere) this.start();
  }

  #hear(report: Report): void {
    this.#silent = 0;
    if (report.type === 'ready') {
      this.isUp = true;
      this.#limit = SILENT_TICKS;
    }
    if (report.type === 'longer') this.#limit = Math.max(SILENT_TICKS, Math.ceil(report.ms / 1_000) + SILENT_TICKS);
    if (report.type === 'began') this.#beganLast = report.handler;
    this.#options.onReport?.(report);
  }

  #died(how: string, livedMs: number): void {
    const { role, log, onDeath } = this.#options;
    log.error({ role, how }, `${role} died`);
    onDeath?.(how);
    // If a handler had begun, restart at once: each death counts against tasks that were running, so the deaths end.
    if (this.#beganLast || livedMs > HEALTHY_MS) this.#pauseMs = PAUSE_MS.first;
    const pauseMs = this.#beganLast ? 0 : this.#pauseMs;
    this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE_MS.most);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.start();
    }, pauseMs);
  }
}
