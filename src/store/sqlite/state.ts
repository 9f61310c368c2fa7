// The state role of the store: single values, of which some are JSON documents.
import type { KeptState, StateStore } from '../state.ts';
import { keptHealthOf } from './read/read.ts';
import type { Session, Sync } from './session.ts';

const CURSORS = new Set<keyof KeptState>(['watermark', 'begins_at']);
const DEFAULTS: Partial<KeptState> = {
  replay_runs: [],
  crashes: [],
  compared: 0,
  reconcile_asked: 0,
  refusals: {},
  reload_asked: 0,
};

export function createStateStore(session: Session): Sync<Omit<StateStore, 'note'>> {
  function read(name: keyof KeptState): unknown {
    if (CURSORS.has(name)) return session.cursorState(name);
    const value = session.state(name);
    return typeof value === 'string' ? JSON.parse(value) : value;
  }

  return {
    get: <Name extends keyof KeptState>(name: Name) => (read(name) ?? DEFAULTS[name] ?? null) as KeptState[Name],
    books: () => keptHealthOf(session),
  };
}
