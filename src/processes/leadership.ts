// Whether this instance of the kit leads: the leader alone runs handlers and reads history, all instances accept
// deliveries. The owner of an SQLite store is the only instance, so it always leads.
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { orNone } from '../store/or-none.ts';
import type { Standing } from '../store/processes.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { START_MS } from '../store/site.ts';
import { StoreError, type Store } from '../store/store.ts';
import type { Children } from './children.ts';

/** The time until the next try, if the store cannot be asked. */
const RETRY_MS = 250;

export interface LeadershipOptions {
  store: () => Store;
  children: () => Pick<Children, 'boots' | 'handlers' | 'lead' | 'standBy' | 'restartKeep'>;
  /** A newer kit has changed the store so that this one must not use it any more. */
  onNewer: (error: StoreError) => void;
  log: Logger;
}

type Place = Pick<Standing, 'instance' | 'leads'>;

export function createLeadership(options: LeadershipOptions) {
  const { store, children, onNewer, log } = options;
  const follower = createFollower(options);
  let latest: Place = follower.standing();
  /** The children have started, so they follow. */
  let started = false;
  let stopping = false;
  let loop: Loop | undefined;

  async function look(): Promise<number> {
    const { lost, againMs, instance, leads } = await store().processes.lead(!stopping, children().handlers());
    follower.note(lost);
    latest = { instance, leads };
    return againMs ?? Infinity;
  }

  async function step(): Promise<number> {
    const againMs = await look();
    if (started && !stopping) follower.follow(latest);
    return againMs;
  }

  function recover(error: unknown): number {
    if (!(error instanceof StoreError)) throw error;
    if (error.code !== 'newer') return RETRY_MS;
    onNewer(error);
    return Infinity;
  }

  return {
    standing: follower.standing,
    /** Joins the store, and gives signs of life from now on. Call it before the children start. */
    async join(): Promise<void> {
      await retryWhileBusy(look, START_MS);
      await follower.begin(latest);
      if (!latest.leads) log.info('another instance leads: this one accepts deliveries and stands by');
      loop = startLoop(step, recover);
    },
    /** The children follow the standing. Call it when they have started. */
    follow(): void {
      started = true;
      loop?.wake();
    },
    /** Another instance may lead from now on. Call it when the handlers have ended. */
    async resign(): Promise<void> {
      stopping = true;
      await orNone(() => store().processes.resign());
    },
    async stop(): Promise<void> {
      await loop?.stop();
      await orNone(() => store().processes.leave());
    },
  };
}

/** Brings the children in line with the standing. That may take longer than the time between two signs of life. */
function createFollower({ store, children, log }: LeadershipOptions) {
  /** What the children follow. */
  let standing: Place = { instance: 0, leads: false };
  /** Whether an instance was lost whose tasks are not given back yet. */
  let owed = false;
  let working = false;

  /** Tasks that a lost instance, or a process that is gone, was running become ready. */
  async function giveBack(): Promise<void> {
    const give = () => store().processes.giveBack(children().boots(), store().now(), undefined, true);
    const tasks = await retryWhileBusy(give, START_MS);
    owed = false;
    if (tasks.length > 0)
      log.info({ tasks: tasks.length }, 'tasks that were running when the kit died are ready again');
  }

  async function change({ instance, leads }: Place): Promise<void> {
    const { leads: led, instance: before } = standing;
    if (instance !== before || (led && !leads)) standing = { instance, leads: false };
    if (led && !standing.leads) {
      log.error('another instance leads now, so the handlers of this one are ended: see npx kit instances');
      await children().standBy();
      // `keep` writes with the number of its instance.
    } else if (instance !== before) await children().restartKeep();
    const isNew = leads && !standing.leads;
    if (isNew || (leads && owed)) await giveBack();
    standing = { instance, leads };
    if (!isNew) return;
    log.info('this instance leads: it runs handlers and reconciles');
    await children().lead();
  }

  return {
    standing: () => standing,
    note(lost: string[]): void {
      for (const name of lost)
        log.error(`the instance ${name} is lost, it gives no sign of life: see npx kit instances`);
      owed ||= lost.length > 0;
    },
    /** Before the children start. */
    async begin(latest: Place): Promise<void> {
      if (latest.leads) await giveBack();
      standing = latest;
    },
    /** Does nothing while an earlier change is under way: the next look follows soon. */
    follow(latest: Place): void {
      if (working) return;
      working = true;
      void orNone(() => change(latest)).finally(() => (working = false));
    },
  };
}
