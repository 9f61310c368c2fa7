// Faults of handler files. An alarm shows them while they last, and the log names each change once.
import type { Logger } from '../base/log.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { Store } from '../store/store.ts';
import type { Fault } from './child.ts';

export function createHandlerFaults(store: () => Store, log: Logger) {
  let noted = '';

  /**
   * Stores the faults. Returns false if the same faults are stored already. `waiting`: the handlers of these files
   * wait. If it is false, the old handlers keep running.
   */
  async function note(faults: Fault[], waiting: boolean): Promise<boolean> {
    const files = JSON.stringify(faults.filter(({ file }) => file !== null));
    const news = `${waiting} ${files}`;
    if (news === noted) return false;
    noted = news;
    await retryWhileBusy(() => store().state.note({}, { handler_faults: files }));
    return true;
  }

  return {
    note: async (faults: Fault[]): Promise<void> => void (await note(faults, false)),
    async noteWaiting(faults: Fault[]): Promise<void> {
      if ((await note(faults, true)) && faults.length > 0)
        log.error(
          { faults: faults.map(({ fault }) => fault) },
          'the handlers of these files wait until they can be loaded; the others go on',
        );
    },
  };
}
