// For tests: a real store, a clock that the test sets, and a log whose lines the test reads.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino, type Logger } from 'pino';
import type { Clock } from '../src/base/clock.ts';
import type { Signer } from '../src/store/keep.ts';
import type { Store } from '../src/store/store.ts';
import { storeKind, type Queries } from './stores.ts';

export const START = Date.UTC(2026, 0, 1, 12);

export interface TestClock extends Clock {
  /** The wall clock, Unix milliseconds. Setting this field moves the monotonic clock as well. */
  time: number;
  /** Sets the wall clock forward or back by `ms`. The monotonic clock stays. */
  step: (ms: number) => void;
}

export function createClock(): TestClock {
  let stepped = 0;
  const clock = {
    time: START,
    now: () => clock.time,
    monotonic: () => clock.time - stepped,
    step(ms: number) {
      clock.time += ms;
      stepped += ms;
    },
  };
  return clock;
}

export interface TestLog {
  log: Logger;
  /** All log lines so far. */
  text: () => string;
}

export function createTestLog(): TestLog {
  let written = '';
  return { log: pino({ level: 'trace' }, { write: (line: string) => void (written += line) }), text: () => written };
}

export interface StoreFile extends Omit<Queries, 'close'> {
  path: string;
  store: Store;
  remove: () => void;
}

export function createStoreFile(): StoreFile {
  const folder = mkdtempSync(join(tmpdir(), 'kit-keep-'));
  const path = join(folder, 'events.db');
  const store = storeKind.open(path, { owner: true });
  const { close, ...queries } = storeKind.queries(path);
  return {
    path,
    store,
    ...queries,
    remove() {
      close();
      store.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** As if the service had signed a good delivery at this time. */
export async function confirmClock(store: Pick<Store, 'state'>, at: number): Promise<void> {
  const times = { firstAt: at, lastAt: at, aloneAt: null, goneAt: null };
  const signer: Signer = { fingerprint: 'test', number: 1, hits: 1, mayGo: false, ...times };
  await store.state.note({}, { signers: JSON.stringify([signer]) });
}
