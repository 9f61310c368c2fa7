// Reads everything that the service has into the store at a path, as `keep` does: checkpoints between two calls, twenty
// events a page so that a short history is many pages. Says when it begins, and ends when reading is at its end.
import { pino } from 'pino';
import { createBudget } from '../../src/service/budget.ts';
import { createReconciler } from '../../src/keep/reconcile.ts';
import { createService } from '../../src/service/service.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';

const PAGE = 20;
export const BEGINS = 'begins to read';

export async function reconcile(path: string, baseUrl: string, apiKey: string): Promise<void> {
  const clock = { now: () => Date.now() };
  const store = openSqlite(path, { owner: true });
  const client = createService({ baseUrl, apiKey, paid: false });
  const reconciler = createReconciler({
    store,
    service: { call: (operation, request) => client.call(operation, { ...request, limit: PAGE }) },
    clock,
    log: pino({ level: 'silent' }),
    budget: createBudget(120, clock),
    from: 'first-webhook',
    types: ['*'],
    intervalMs: 60_000,
    overlapMs: 300_000,
    onEvents: () => {},
  });
  try {
    for (let pages = 0; ; pages++) {
      await reconciler.step();
      await store.checkpoint(pages % 2 === 1);
      if ((await store.status(clock.now())).reconcile.state === 'idle') return;
    }
  } finally {
    store.close();
  }
}

const [path, baseUrl, apiKey] = process.argv.slice(2);
if (import.meta.main && path && baseUrl && apiKey) {
  process.stderr.write(`${BEGINS}\n`);
  await reconcile(path, baseUrl, apiKey);
}
