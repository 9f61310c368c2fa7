// The state role of the store: single values, of which some are JSON documents.
import type { Failures, KeptHealth, Signer } from '../keep.ts';
import { isCursor, keptOf, type KeptState, type StateKey, type StateStore } from '../state.ts';
import type { Session } from './session.ts';

export function createStateStore(session: Session): Omit<StateStore, 'note'> {
  return {
    get: async <Name extends keyof KeptState>(name: Name) =>
      keptOf(name, isCursor(name) ? await session.cursorState(name) : await session.state(name)),
    books: () => keptHealthOf(session),
  };
}

/** State that the main process writes and reads again when it starts. */
export async function keptHealthOf(session: Session): Promise<KeptHealth> {
  const read = async (name: StateKey): Promise<unknown> => JSON.parse(String(await session.state(name)));
  return {
    failureRun: Number(await session.state('failure_run')),
    failures: ((await read('failures')) as Failures | null) ?? {
      causes: {},
      badSignatures: 0,
      badSince: null,
      lastBadAt: null,
      lastGoodAt: null,
    },
    signers: ((await read('signers')) as Signer[] | null) ?? [],
  };
}
