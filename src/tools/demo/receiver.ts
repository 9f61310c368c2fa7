// The demo's receiver: one instance of the kit on SQLite, or two on PostgreSQL behind a balancer. The demo kills its
// processes.
import { open } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { createBalancer, type Balancer } from './balancer.ts';
import type { Instance, Instances } from './instances.ts';

export interface Receiver {
  /** Where the service delivers. */
  url: string;
  store: Store;
  /** Undefined: there is one instance. */
  balancer: Balancer | undefined;
  until: Instances['until'];
  /** Kills the process that runs handlers. */
  killRun(): Promise<void>;
  /** Kills all processes of the instance that leads. Resolves when another one leads. */
  killLeader(): Promise<void>;
}

/** `storeUrl`: a PostgreSQL store. Undefined: the one instance has an SQLite file of its own. */
export async function startReceiver(
  instances: Instances,
  storeUrl: string | undefined,
  env: { API_BASE_URL: string; API_KEY: string },
): Promise<Receiver> {
  const { kit } = await instances.start(env);
  if (storeUrl) await instances.start(env);
  const balancer = storeUrl ? await createBalancer(instances.all.map((one) => one.kit.url)) : undefined;
  const store = open(kit.storeUrl, { busyMs: 5_000 });

  async function leader(): Promise<Instance | undefined> {
    const lead = (await store.processes.instances()).find(({ leads }) => leads);
    return instances.all.find(({ main }) => lead?.name.endsWith(`:${main.pid}`));
  }

  return {
    url: balancer?.url ?? kit.url,
    store,
    balancer,
    until: instances.until,
    async killRun() {
      const ofLeader = storeUrl ? 'join lead on lead.instance = processes.instance' : '';
      const [run] = await store.work.read(`select pid from processes ${ofLeader} where role = 'run'`, []);
      if (!run) throw new Error('the process that runs handlers has not started');
      process.kill(Number(run['pid']), 'SIGKILL');
    },
    async killLeader() {
      const killed = await leader();
      if (!killed) throw new Error('no instance leads');
      killed.killed = true;
      killed.kit.kill();
      await instances.until('the other instance to lead', async () => {
        const now = await leader();
        return now !== undefined && now !== killed;
      });
    },
  };
}
