// The process role of the store, for the main process: which processes are alive, and what dead ones left behind.

export type Role = 'receive' | 'run' | 'keep';

export interface Process {
  role: string;
  pid: number;
  started: string;
  boot: number;
}

/** What an instance of the kit may do. An instance is one main process and its children. */
export interface Standing {
  /** Another number than before: it had been taken for lost. Its children must not go on. */
  instance: number;
  /** Its `run` runs handlers, and its `keep` reconciles, prunes and raises alarms. Only one instance leads. */
  leads: boolean;
  /** The names of instances that were found lost. Their claims must be given back. */
  lost: string[];
  /** When to ask again, milliseconds. Null: the answer does not change. */
  againMs: number | null;
}

/** `processes`: the roles of its processes that give signs of life. Times are ISO 8601. */
export interface Instance {
  instance: number;
  name: string;
  version: string;
  since: string;
  /** Null: it gives signs of life. */
  lostAt: string | null;
  leads: boolean;
  processes: string[];
  /** Names of the handlers that it has loaded. */
  handlers: string[];
}

/** The handlers that not every living instance has loaded, each with the names of the instances that lack it. */
export function differing(instances: Instance[]): { handler: string; lack: string[] }[] {
  const living = instances.filter(({ lostAt }) => lostAt === null);
  return [...new Set(living.flatMap(({ handlers }) => handlers))].flatMap((handler) => {
    const lack = living.filter(({ handlers }) => !handlers.includes(handler)).map(({ name }) => name);
    return lack.length > 0 ? [{ handler, lack }] : [];
  });
}

export interface Reloaded {
  /** The reload answers all requests for a reload up to this number. */
  asked: number;
  /** Names of the handlers that are loaded now. */
  handlers: string[];
  ms: number;
  faults: string[];
  /** What was not replaced by the reload, because of the faults; null: nothing. */
  old: 'handlers go on' | 'configuration stays in force' | null;
  /** Changed variables that need a restart. */
  restart: string[];
  /** About the loaded handlers. Absent: the receiver is of an older release. */
  warnings?: string[];
}

export interface ProcessStore {
  /**
   * Copies the WAL into the file and syncs it. Call it before the store is used, because an earlier process may have
   * died after a failed sync. Throws StoreError `busy` while others read the WAL.
   */
  settle(): Promise<void>;
  identity(): Promise<string>;
  /** Gives the store another id. `settle` copies it from the WAL into the file. */
  identify(id: string): Promise<void>;
  /** Returns the `boot` of a new process: a number that no process had before. */
  nextBoot(): Promise<number>;
  beat(process: Process, now: number): Promise<void>;
  gone(role: string): Promise<void>;
  list(): Promise<Process[]>;
  /** Requests a reload and returns the number of the request. The main process must be signalled as well. */
  askReload(): Promise<number>;
  /**
   * Renews the standing of this instance. If it may, it takes the lead that no living instance has. `handlers`: the names
   * of those that it has loaded.
   */
  lead(mayLead: boolean, handlers?: string[]): Promise<Standing>;
  /** Gives up the lead, so that another instance takes it at once. */
  resign(): Promise<void>;
  /** The instance ends. */
  leave(): Promise<void>;
  instances(): Promise<Instance[]>;
  /**
   * Ends the claims of dead processes and marks their tasks isolated. If a task was the only one in its process, its
   * attempt counts. `alive` are the boots of the processes of this instance that still run. `lost`: a whole instance was
   * lost, which need not be the fault of a task. So a task is isolated only if that happened to it before.
   */
  giveBack(alive: number[], now: number, crash?: CrashPolicy, lost?: boolean): Promise<GivenBack[]>;
  /** Whether an isolated task of one of these handlers is due. It then needs a process of its own. */
  isolatedDue(now: number, handlers: string[]): Promise<boolean>;
}

/** How a process died, and what follows for a task that was alone in it. Absent: the main process died too. */
export interface CrashPolicy {
  /** In words: exit code or signal, and the place if it is known. */
  how: string;
  after: (handler: string, attempt: number, crashes: number) => { delayMs: number; holdMs: number } | 'dead';
}

export interface GivenBack {
  handler: string;
  key: string;
  attempt: number;
  alone: boolean;
  dead: boolean;
}

/** The policy if the main process died too: nothing shows that the task caused the crash. */
const WITH_THE_KIT: CrashPolicy = {
  how: 'with the kit',
  after: (_, attempt) => ({ delayMs: 1_000 * 2 ** Math.min(attempt - 1, 12), holdMs: 120_000 }),
};

/** What follows for a task that was alone when its process died. `crashes`: how often its process died before. */
export function afterCrash(
  crash: CrashPolicy | undefined,
  handler: string,
  attempt: number,
  crashesBefore: number,
): { crashes: number; error: string; next: ReturnType<CrashPolicy['after']> } {
  const { how, after } = crash ?? WITH_THE_KIT;
  const crashes = crashesBefore + (crash ? 1 : 0);
  const often = crashes > 1 ? `its process died ${crashes} times` : 'its process died';
  return { crashes, error: `${often}: ${how}`, next: after(handler, attempt, crashes) };
}
