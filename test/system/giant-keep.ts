// A process that reconciles until it is stopped. giant.test.ts gives it a small heap and huge pages of replay.
import { pino } from 'pino';
import { systemClock as clock } from '../../src/base/clock.ts';
import { createReconciler } from '../../src/reconcile/reconciler.ts';
import { startLoop } from '../../src/base/loop.ts';
import { createBudget } from '../../src/service/budget.ts';
import { createService } from '../../src/service/service.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { API_KEY } from '../reconcile/replay-server.ts';

const [baseUrl = '', path = ''] = process.argv.slice(2);
const reconciler = createReconciler({
  store: openSqlite(path),
  service: createService({ baseUrl, apiKey: API_KEY, paid: false }),
  clock,
  log: pino({ level: 'silent' }),
  budget: createBudget(10_000, clock),
  from: '5',
  types: ['*'],
  intervalMs: 200,
  overlapMs: 60_000,
  onEvents: () => {},
});
startLoop(() => reconciler.step());
