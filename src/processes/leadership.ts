// Whether this instance of the kit leads: the leader alone runs handlers and reads history, all instances accept
// deliveries. The owner of an SQLite store is the only instance, so it always leads.
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { orNone } from '../store/or-none.ts';
import type { Standing } from '../store/processes.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { START_MS } from '../store/site.ts';
import type { Store } from '../store/store.ts';
import type { Children } from './children.ts';

/** The time until the next try, if the store cannot be asked. */
const RETRY_MS = 250;

export interface LeadershipOptions {
  store: () => Store;
  children: () => Pick<Children, 'lead' | 'standBy'>;
  log: Logger;
}

export function createLeadership({ store, children, log }: LeadershipOptions) {
  let standing: Pick<Standing, 'instance' | 'leads'> = { instance: 0, leads: false };
  let stopping = false;
  let loop: Loop | undefined;

  /** Tasks that a dead process, or a lost instance, was running become ready. */
  async function giveBack({ renewed, lost, leads }: Standing): Promise<void> {
    for (const name of lost) log.error(`the instance ${name} is lost, it gives no sign of life: see npx kit instances`);
    const isNew = leads && !standing.leads;
    const giveAll = () => store().processes.giveBack([], store().now(), undefined, isNew || renewed);
    if (!isNew && lost.length === 0) return;
    const tasks = await retryWhileBusy(giveAll, START_MS);
    if (tasks.length > 0)
      log.info({ tasks: tasks.length }, 'tasks that were running when the kit died are ready again');
  }

  async function step(): Promise<number> {
    const now = await store().processes.lead(!stopping);
    if (stopping) return now.againMs ?? Infinity;
    const { instance, leads } = now;
    const led = standing.leads;
    if (led && (!leads || now.renewed)) {
      log.error('another instance leads now, so the handlers of this one are ended: see npx kit instances');
      standing = { instance, leads: false };
      await children().standBy();
    }
    if (leads && !standing.leads) {
      await giveBack(now);
      standing = { instance, leads };
      log.info('this instance leads: it runs handlers and reconciles');
      await children().lead();
    } else await giveBack(now);
    standing = { instance, leads };
    return now.againMs ?? Infinity;
  }

  return {
    standing: () => standing,
    /** Joins the store. Call it before the children start. */
    async join(): Promise<void> {
      const now = await retryWhileBusy(() => store().processes.lead(true), START_MS);
      await giveBack(now);
      standing = { instance: now.instance, leads: now.leads };
      if (!now.leads) log.info('another instance leads: this one accepts deliveries and stands by');
    },
    /** Follows the standing. Call it when the children have started. */
    follow(): void {
      loop = startLoop(() => orNone(step).then((ms) => ms ?? RETRY_MS));
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
