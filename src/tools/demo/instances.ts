// The demo's instances of the kit: real processes, and what they wrote.
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createSandbox, type MainProcess, type Sandbox } from '../sandbox.ts';

const PATIENCE_MS = 60_000;
export const SECRET = 'whsec_of_the_demo_and_of_nothing_else';

export interface Instance {
  kit: Sandbox;
  main: MainProcess;
  output: string;
  /** The demo has killed it. */
  killed: boolean;
}

export type Instances = ReturnType<typeof createInstances>;

/** `storeUrl`: the store that they share. Undefined: each has an SQLite file of its own. */
export function createInstances(storeUrl: string | undefined) {
  const all: Instance[] = [];
  let stopping = false;
  const output = (): string => all.map((instance) => instance.output).join('');

  /** Polls until `holds` is true. After a minute it throws an error that names `what`. */
  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + PATIENCE_MS;
    while (!(await holds())) {
      const ended = all.find(({ main, killed }) => !killed && main.exitCode !== null);
      if (ended) throw new Error(`the receiver ended with ${ended.main.exitCode}:\n${output()}`);
      if (performance.now() > end)
        throw new Error(`after ${PATIENCE_MS / 1000} s still waiting for ${what}:\n${output()}`);
      await sleep(50);
    }
  }

  return {
    all,
    output,
    until,
    /** Resolves when it is ready for deliveries. */
    async start(env: Record<string, string>): Promise<Instance> {
      const kit = await createSandbox('demo', {
        PATH: process.env['PATH'],
        WEBHOOK_SECRET: SECRET,
        HANDLERS_DIR: fileURLToPath(new URL('handlers/', import.meta.url)),
        // Reconciliation runs when `keep` starts or begins to lead, then only on request.
        RECONCILE_INTERVAL_SECONDS: '86400',
        DATABASE_URL: storeUrl,
        ...env,
      });
      if (stopping) throw new Error('the receiver stops');
      const instance: Instance = { kit, main: kit.start(), output: '', killed: false };
      all.push(instance);
      for (const stream of [instance.main.stdout, instance.main.stderr])
        stream.on('data', (chunk: Buffer) => (instance.output += chunk.toString()));
      await until('the receiver to be ready', async () => instance.output.includes('ready for deliveries'));
      return instance;
    },
    async stop(): Promise<void> {
      stopping = true;
      await Promise.all(all.map(({ kit }) => kit.stop(PATIENCE_MS)));
    },
  };
}
