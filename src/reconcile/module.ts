// Recovery of missed events, in the keep process.
import type { KeepModule } from '../keep/module.ts';
import { startRecovery } from './start.ts';

export const reconcile: KeepModule = ({ config, store, clock, log, recover, wake, leads, leading, shared }) => {
  let recovery: Awaited<ReturnType<typeof startRecovery>>;

  // The caller does not await `start`, because the ops port and the alarms must not wait for the store.
  async function start(): Promise<void> {
    const silent = (): boolean => shared.webhooksSilent();
    recovery = await startRecovery({ config, store, clock, log, recover, onEvents: wake, silent });
    if (recovery) Object.assign(shared, { reconcile: recovery.now, prove: recovery.prove });
  }

  const started = leading.then(start);
  return { ...(leads && { ready: started }), stop: async () => recovery?.stop() };
};
