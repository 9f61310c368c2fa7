// The state role of the store: single values, of which some are JSON documents.
import { isCursor, keptOf, type KeptState, type StateStore } from '../state.ts';
import { keptHealthOf } from './read/status.ts';
import type { Session, Sync } from './session.ts';

export function createStateStore(session: Session): Sync<Omit<StateStore, 'note'>> {
  return {
    get: <Name extends keyof KeptState>(name: Name) =>
      keptOf(name, isCursor(name) ? session.cursorState(name) : session.state(name)),
    books: () => keptHealthOf(session),
  };
}
