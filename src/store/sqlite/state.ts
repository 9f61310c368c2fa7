// The state role of the store: single values, of which some are JSON documents.
import type { Failures, KeptHealth, Signer } from '../keep.ts';
import { isCursor, keptOf, type KeptState, type StateKey, type StateStore } from '../state.ts';
import type { Session, Sync } from './session.ts';

export function createStateStore(session: Session): Sync<Omit<StateStore, 'note'>> {
  return {
    get: <Name extends keyof KeptState>(name: Name) =>
      keptOf(name, isCursor(name) ? session.cursorState(name) : session.state(name)),
    books: () => keptHealthOf(session),
  };
}

/** State that the main process writes and reads again when it starts. */
export function keptHealthOf(session: Session): KeptHealth {
  const read = (name: StateKey): unknown => JSON.parse(String(session.state(name)));
  return {
    failureRun: Number(session.state('failure_run')),
    failures: (read('failures') as Failures | null) ?? {
      causes: {},
      badSignatures: 0,
      badSince: null,
      lastBadAt: null,
      lastGoodAt: null,
    },
    signers: (read('signers') as Signer[] | null) ?? [],
  };
}
