// The contract of every store. Another kind of store is complete when this suite passes. Each promise of the store
// belongs here, not into the test of one store. The suite uses the interface of the store alone, and no table of the kit.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { accepting } from './accepting.ts';
import { fixing } from './admin.ts';
import { attempts } from './attempts.ts';
import { chains } from './chains.ts';
import { storms } from './concurrency.ts';
import { deaths } from './crashes.ts';
import { erasingContract } from './erasing.ts';
import { createDesk, sums, T0, type Desk, type Suite, type WorkingStore } from './harness.ts';
import { health } from './health.ts';
import { identityContract } from './identity.ts';
import { lanes } from './lanes.ts';
import { notes } from './notes.ts';
import { pausing } from './pausing.ts';
import { pruning } from './pruning.ts';
import { looking } from './reading.ts';
import { reruns } from './reruns.ts';
import { setups, sharedSetups } from './setups.ts';
import { strictContract } from './strict.ts';

/** Tests the part of a store that accepts, orders and runs. */
export function workingContract(name: string, open: (path: string) => WorkingStore): void {
  suiteOf(name, open, workingParts);
  suiteOf(name, open, storms);
  strictContract(name, open);
  identityContract(name, open);
}

/** Tests all roles. Its three parts can stand in files of their own, which run at the same time. */
export function storeContract(...given: Parameters<typeof promisesContract>): void {
  const [name, open] = given;
  rolesContract(name, open);
  concurrencyContract(name, open);
  promisesContract(...given);
}

export function rolesContract(name: string, open: (path: string) => Store): void {
  suiteOf(name, open, (suite) => {
    workingParts(suite);
    health(suite);
    fixing(suite);
    pausing(suite);
    reruns(suite);
    pruning(suite);
    looking(suite);
    sharedSetups(suite);
  });
}

export function concurrencyContract(name: string, open: (path: string) => Store): void {
  suiteOf(name, open, storms);
}

/** `everyByte`: what the store holds in its folder. */
export function promisesContract(
  name: string,
  open: (path: string) => Store,
  everyByte?: (folder: string) => string,
): void {
  strictContract(name, open, open);
  identityContract(name, open, open);
  erasingContract(name, open, everyByte);
}

function workingParts(suite: Suite): void {
  accepting(suite);
  lanes(suite);
  chains(suite);
  notes(suite);
  setups(suite);
  attempts(suite);
  deaths(suite);
}

function suiteOf<Kind extends WorkingStore>(
  name: string,
  open: (path: string) => Kind,
  parts: (suite: Suite<Kind>) => void,
): void {
  describe(name, () => {
    let folder: string;
    let store: Kind;
    let desk: Desk<Kind>;
    const opened: Kind[] = [];

    function another(): Kind {
      const one = open(join(folder, 'events.db'));
      opened.push(one);
      return one;
    }

    beforeEach(async () => {
      folder = mkdtempSync(join(tmpdir(), 'kit-store-'));
      store = another();
      desk = await createDesk(store);
    });

    afterEach(async () => {
      try {
        await expectCountersToEqualRows(store);
      } finally {
        for (const one of opened.splice(0)) one.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });

    parts({
      get store() {
        return store;
      },
      get desk() {
        return desk;
      },
      another,
    });
  });
}

/** People see counters instead of counted rows, so each counter must equal the number of its rows. */
async function expectCountersToEqualRows(store: WorkingStore): Promise<void> {
  const counted = { ready: 0, running: 0, done: 0, skipped: 0, dead: 0 };
  for (let before: number | undefined = Infinity; before !== undefined;) {
    const page = await store.read.tasks({ limit: 1_000, before }, T0);
    for (const { state } of page.tasks) counted[state === 'held' ? 'ready' : state]++;
    before = page.next ?? undefined;
  }
  let events = 0;
  for (let after = 0; ;) {
    const page = await store.work.missed(after, Number.MAX_SAFE_INTEGER, 1_000);
    events += page.length;
    const last = page.at(-1);
    if (!last) break;
    after = last.seq;
  }
  expect(await sums(store)).toMatchObject({ events, tasks: counted, waiting: counted.ready + counted.running });
}
