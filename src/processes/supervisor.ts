// One child of the main process: loaded, let to work, watched, started again with growing pauses when it dies, stopped
// within a time limit. A handler's file that ends it while it loads is left out, and named.
import { relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Env } from '../config.ts';
import type { Logger } from '../base/log.ts';
import type { LoadedHandler, Statement } from './channel.ts';
import { spawnChild, type Death, type Reached, type Spawned } from './child.ts';

/** A debugger holds its loop, and a process that it is attached to does not end by itself. */
const DEBUGGED_STOP_MS = 1_000;
const PAUSE_MS = { first: 100, most: 30_000 };
/** A child that lived this long starts again without a pause. */
const HEALTHY_MS = 10_000;
/** Between two words to the same child: one costs as much as some deliveries. */
const WAKE_MS = 5;

/** Why it cannot work: of a handler's file, which it can do without, or of none. */
export interface Fault {
  file: string | null;
  fault: string;
}

export interface ChildOptions {
  role: string;
  memory: string[];
  /** Relative to this file. */
  entry: string;
  args?: string[];
  /** Asked at each start. */
  env: () => Env;
  /** Asked at each start; the child waits for it before it works. */
  boot: () => Promise<number>;
  log: Logger;
  /** False for a child that ends by itself. */
  lasting?: boolean;
  /** Whether it has set-ups to run between loading and working. */
  prepares?: boolean;
  /** Files that are left out from the beginning; asked at each start. */
  without?: () => string[];
  onWake?: () => void;
  /** It goes to work without these files. */
  onFaults?: (faults: Fault[]) => void;
  /** After each exit of one that was told to work, before the next start. */
  onExit?: (unexpected: boolean, death: Death) => Promise<void>;
}

export interface Child {
  /** Resolves with faults that keep it, or files of its, from loading. Does not work yet. */
  load(): Promise<Fault[]>;
  /** The same, with the set-ups. */
  prepare(): Promise<Fault[]>;
  /** Lets it work, without the files that have faults. Resolves with what keeps it from that, or with none once it is ready. */
  start(): Promise<Fault[]>;
  wake(): void;
  say(statement: Statement): void;
  /** SIGTERM, then SIGKILL after the limit; without one, SIGKILL. */
  stop(limitMs: number): Promise<void>;
  /** SIGKILL where it has shown no life for that long. */
  endIfSilent(ms: number): void;
  /** Those that it was let to work with last. */
  handlers(): LoadedHandler[];
  /** The files that it works without. */
  broken(): string[];
  /** Its number while it lives. */
  boot(): number | null;
  pid(): number | undefined;
}

export function createChild(options: ChildOptions): Child {
  const { role, log, lasting = true, prepares = false, args = [] } = options;
  const debugged = args.some((arg) => arg.startsWith('--inspect'));
  let child: Spawned | undefined;
  let boot: number | null = null;
  let wanted = false;
  let stopped = false;
  let pauseMs = PAUSE_MS.first;
  let wokenAt = -Infinity;
  let waking = false;
  /** Files that have ended a process, and how; left out of the next. */
  let killers = new Map<string, string>();
  let broken: string[] = [];
  let handlers: LoadedHandler[] = [];
  let gone: Promise<void> = Promise.resolve();

  function spawnIt(): Spawned {
    const without = [...new Set([...(options.without?.() ?? []), ...killers.keys()])];
    const spawned = spawnChild({
      ...options,
      args: [...args, ...(without.length > 0 ? [`--without=${JSON.stringify(without)}`] : [])],
      env: options.env(),
      onWake: () => options.onWake?.(),
      onStill: (limitMs) =>
        log.error({ role, pid: spawned.pid }, `${role} stood still for ${limitMs / 1000} s and is killed`),
      onError: (error) => log.error({ role, code: (error as NodeJS.ErrnoException).code }, `${role} cannot be started`),
    });
    gone = spawned.ended.then(() => undefined);
    return spawned;
  }

  /** As far as that stage: what ends it on the way is left out, and tried again without. */
  async function reach(stage: 'loaded' | 'prepared'): Promise<Fault[]> {
    for (;;) {
      const mine = (child ??= spawnIt());
      let reached = await mine.loaded;
      if (stage === 'prepared' && 'faults' in reached) {
        mine.send({ type: 'prepare', boot: 0 });
        reached = await mine.prepared;
      }
      if ('faults' in reached) return [...killersAsFaults(), ...reached.faults];
      if (stopped) return [];
      const fault = await failed(mine, reached);
      if (fault) return [...killersAsFaults(), ...fault];
    }
  }

  function killersAsFaults(): Fault[] {
    return [...killers].map(([file, fault]) => ({ file, fault }));
  }

  /** Undefined: it can be tried again without the file that did it. */
  async function failed(mine: Spawned, reached: Exclude<Reached, { faults: unknown }>): Promise<Fault[] | undefined> {
    await gone;
    if (child === mine) child = undefined;
    if ('refused' in reached) return reached.refused.map((fault) => ({ file: null, fault }));
    const { death } = reached;
    const file = culprit(death);
    if (file === undefined || killers.has(file))
      return [{ file: null, fault: `${role} ended with ${howOf(death)} before it was ready` }];
    killers.set(file, `${placeOf(death, file)}: ${deedOf(death)}`);
    return undefined;
  }

  /** Prepares it, and lets it work. Whatever keeps it from that, it is tried again. */
  async function begin(): Promise<Fault[]> {
    const faults = await reach(prepares ? 'prepared' : 'loaded');
    const mine = child;
    if (!wanted || !mine) return giveUp(faults);
    const number = await options.boot();
    // One that was started in its place has another number, and a dead one none.
    if (child !== mine) return giveUp([]);
    boot = number;
    handlers = mine.handlers();
    broken = faults.flatMap(({ file }) => file ?? []);
    options.onFaults?.(faults);
    gone = look(mine);
    mine.send({ type: 'go', boot });
    const reached = await mine.ready;
    // One that was stopped meanwhile has not failed.
    if ('faults' in reached || !wanted) return [];
    if ('refused' in reached) return reached.refused.map((fault) => ({ file: null, fault }));
    return [{ file: null, fault: `${role} ended with ${howOf(reached.death)} before it was ready` }];
  }

  function giveUp(faults: Fault[]): Fault[] {
    if (wanted) void comeBack(undefined);
    return faults.filter(({ file }) => file === null);
  }

  /** Until it has died, and its tasks are given back. */
  async function look(mine: Spawned): Promise<void> {
    const death = await mine.ended;
    if (child === mine) child = undefined;
    boot = null;
    const unexpected = lasting && wanted;
    const { code, signal, words } = death;
    if (unexpected)
      log.error({ role, code, signal, ...(words?.at && { at: words.at }) }, `${role} died and is started again`);
    const healthy = performance.now() - mine.startedAt > HEALTHY_MS;
    if (healthy) pauseMs = PAUSE_MS.first;
    await options.onExit?.(unexpected, death);
    // A file that ends it now and then, by a lost connection say, is worth another start; one that does at once is not.
    if (lasting) void comeBack(healthy ? undefined : death);
  }

  async function comeBack(death: Death | undefined): Promise<void> {
    if (!wanted) return;
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS.most);
    if (!wanted || child) return;
    // Each file is tried again, but for one that has ended the process from its own top level, soon after the start.
    const file = death?.words?.file;
    killers = new Map(death && file !== undefined ? [[file, `${placeOf(death, file)}: ${deedOf(death)}`]] : []);
    const faults = await begin();
    if (faults.length > 0 && wanted)
      log.error(
        { role, faults: faults.map(({ fault }) => fault) },
        `${role} cannot start; retrying. Fix the error above`,
      );
  }

  return {
    load() {
      stopped = false;
      return reach('loaded');
    },
    prepare() {
      stopped = false;
      return reach('prepared');
    },
    start() {
      stopped = false;
      wanted = true;
      return begin();
    },
    wake() {
      if (waking) return;
      waking = true;
      const since = performance.now() - wokenAt;
      const tell = (): void => {
        waking = false;
        wokenAt = performance.now();
        child?.send({ type: 'wake', boot: boot ?? 0 });
      };
      if (since >= WAKE_MS) tell();
      else setTimeout(tell, WAKE_MS - since);
    },
    say: (statement) => child?.send(statement),
    async stop(limitMs) {
      wanted = false;
      stopped = true;
      const stopping = child;
      if (!stopping) return;
      stopping.kill(limitMs > 0 ? 'SIGTERM' : 'SIGKILL');
      const timer = setTimeout(() => stopping.kill('SIGKILL'), debugged ? DEBUGGED_STOP_MS : limitMs);
      await gone;
      clearTimeout(timer);
      if (child === stopping) child = undefined;
    },
    endIfSilent(ms) {
      const pid = child?.pid;
      if (child?.endIfSilent(ms))
        log.error({ role, pid }, `${role} shows no life while it holds the store's lock, and is killed`);
    },
    handlers: () => handlers,
    broken: () => broken,
    boot: () => boot,
    pid: () => child?.pid,
  };
}

/** The file that it was at; where its own top level has left something behind, that file. */
function culprit({ words, at }: Death): string | undefined {
  return words?.file ?? at?.file;
}

function placeOf({ words }: Death, file: string): string {
  const at = words?.at;
  if (!at || at.startsWith(`${file}:`)) return at ?? file;
  return `${file}: ${at}`;
}

function deedOf(death: Death): string {
  const when = death.at?.stage === 'setup' ? 'during its setup' : 'while it was loaded';
  if (death.still) return `blocked its process ${when}, and was killed`;
  const how = death.words?.threw ? 'threw what nobody caught' : `ended its process (${howOf(death)})`;
  return `${how} ${death.at ? when : 'after it was loaded'}`;
}

/** In words, for people. */
export function howOf({ code, signal, words, still }: Death): string {
  if (still) return 'it stood still, and was killed';
  const at = words?.at ? ` at ${relative(process.cwd(), words.at)}` : '';
  return `${signal ?? `exit code ${code}`}${at}`;
}
