// Faults of handler files. An alarm shows them while they last, and the log names each change once.
import type { Logger } from '../base/log.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { Store } from '../store/store.ts';
import type { Fault } from './child.ts';

export function createHandlerFaults(store: () => Store, log: Logger) {
  let noted = '';

  /** `waiting`: the handlers of these files wait. If it is false, the old handlers keep running. */
  return async (faults: Fault[], waiting: boolean): Promise<void> => {
    const files = JSON.stringify(faults.filter(({ file }) => file !== null));
    const news = `${waiting} ${files}`;
    if (news === noted) return;
    noted = news;
    await retryWhileBusy(() => store().state.note({}, { handler_faults: files }));
    if (waiting && faults.length > 0)
      log.error(
        { faults: faults.map(({ fault }) => fault) },
        'the handlers of these files wait until they can be loaded; the others go on',
      );
  };
}
