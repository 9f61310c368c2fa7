// The contract of every store. Another kind of store is complete when this suite passes. Each promise of the store
// belongs here, not into the test of one store. test/store/identity.test.ts tests which arrivals are the same event.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { accepting } from './accepting.ts';
import { attempts } from './attempts.ts';
import { chains } from './chains.ts';
import { deaths } from './crashes.ts';
import { createDesk, query, T0, type Desk, type Suite } from './harness.ts';
import { lanes } from './lanes.ts';
import { looking } from './reading.ts';
import { fixing } from './admin.ts';
import { notes } from './notes.ts';
import { pruning } from './pruning.ts';
import { reruns } from './reruns.ts';
import { storms } from './concurrency.ts';

export function storeContract(name: string, open: (path: string) => Store): void {
  describe(name, () => {
    let folder: string;
    let store: Store;
    let desk: Desk;
    const opened: Store[] = [];

    function another(): Store {
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

    const suite: Suite = {
      get store() {
        return store;
      },
      get desk() {
        return desk;
      },
      another,
    };
    accepting(suite);
    lanes(suite);
    chains(suite);
    notes(suite);
    attempts(suite);
    deaths(suite);
    fixing(suite);
    reruns(suite);
    pruning(suite);
    looking(suite);
    storms(suite);
  });
}

/** `status` reads counters instead of counting rows, so each counter must equal the number of its rows. */
async function expectCountersToEqualRows(store: Store): Promise<void> {
  const rows = await query(store, async (tx) => ({
    tasks: await tx.all(`
      select case when state = 'ready' and id in (select task from claims) then 'running' else state end as state,
        count(*) as n from tasks group by 1`),
    events: (await tx.get('select count(*) as n from events'))?.['n'],
    quarantined: (await tx.get('select count(*) as n from quarantine'))?.['n'],
  }));
  const { tasks, events, quarantined } = await store.read.status(T0);
  const { held, ready, running, done: finished, skipped, dead } = tasks;
  const none = { ready: 0, running: 0, done: 0, skipped: 0, dead: 0 };
  const counted = { ready: held + ready, running, done: finished, skipped, dead };
  expect(counted).toEqual({ ...none, ...Object.fromEntries(rows.tasks.map(({ state, n }) => [String(state), n])) });
  expect({ events, quarantined }).toEqual({ events: rows.events, quarantined: rows.quarantined });
}
