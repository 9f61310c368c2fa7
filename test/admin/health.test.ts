// Health as a function of the status: a row for each sentence that it can say.
import { expect, test } from 'vitest';
import { health, type Health } from '../../src/admin/health.ts';
import { RULES } from '../../src/alarms/rules/index.ts';
import { UNREAD } from '../../src/keep/view.ts';
import type { Status } from '../../src/store/read.ts';
import type { Cursor } from '../../src/wire/cursor.ts';

const well: Status = {
  ...UNREAD,
  events: 5,
  lastDeliveryAt: '2026-01-01T00:00:00.000Z',
  watermark: '5' as Cursor,
  reconcile: { ...UNREAD.reconcile, state: 'idle' },
};
const NONE = UNREAD.tasks;
const UP = UNREAD.processes;
const OFF = { ...well.reconcile, state: 'off' } as const;
const up = (...names: string[]) => ({
  alarms: names.map((name) => ({ name, since: '2026-01-01T00:00:00.000Z', detail: '' })),
});

const NOT_WRITTEN =
  'The store cannot be written: deliveries get 503, and no handler goes on. The alarm below says why. The service retries its deliveries. The figures are those of before.';
const SET = 'Missed events are not fetched: set API_BASE_URL and API_KEY.';
const REGISTER =
  'All is ready, and nothing has come yet: register the webhook, or enable it if it is off, then send its test event. npx kit doctor checks the way.';

test.each<[string, Partial<Status>, Health['word'], Health['tone'], string]>([
  [
    'all is done',
    {},
    'Receiving',
    'good',
    'All is well: deliveries are taken, all is handled, and nothing is missing.',
  ],
  [
    'there is work',
    { tasks: { ...NONE, ready: 1_000, held: 999, running: 1 }, unassigned: 1 },
    'Receiving',
    'good',
    'All is well: deliveries are taken, 2,001 tasks are on the way, and nothing is missing.',
  ],
  [
    'one task is left',
    { tasks: { ...NONE, running: 1 } },
    'Receiving',
    'good',
    'All is well: deliveries are taken, 1 task is on the way, and nothing is missing.',
  ],
  [
    'nothing is proved yet',
    { watermark: null },
    'Receiving',
    'good',
    'All is well: deliveries are taken, all is handled, and nothing is missing as far as known.',
  ],
  [
    'recovery is off',
    { reconcile: OFF },
    'Receiving',
    'good',
    `All is well: deliveries are taken, all is handled. ${SET}`,
  ],
  [
    'recovery is off and a task is left',
    { reconcile: OFF, tasks: { ...NONE, ready: 1 } },
    'Receiving',
    'good',
    `All is well: deliveries are taken, 1 task is on the way. ${SET}`,
  ],
  ['nothing has come', { events: 0 }, 'Receiving', 'good', REGISTER],
  [
    'the only event is of the kit itself',
    { lastDeliveryAt: null },
    'Receiving',
    'good',
    'No delivery of the service has come yet: register the webhook, or enable it if it is off, then send its test event. npx kit doctor checks the way.',
  ],
  [
    'handlers are paused',
    { paused: ['bot', 'crm'], tasks: { ...NONE, ready: 2 } },
    'Receiving',
    'warn',
    'All is well: deliveries are taken, 2 tasks are on the way, and nothing is missing. Paused: bot, crm.',
  ],
  [
    'every handler is paused, and recovery is off',
    { paused: ['*', 'bot'], reconcile: OFF },
    'Receiving',
    'warn',
    `All is well: deliveries are taken, all is handled. ${SET} Every handler is paused.`,
  ],
  [
    'a handler is paused beside an alarm',
    { ...up('dead_letters'), paused: ['bot'] },
    'Degraded',
    'warn',
    'Deliveries are taken. 1 alarm needs attention. Paused: bot.',
  ],
  ['an alarm can wait', up('dead_letters'), 'Degraded', 'warn', 'Deliveries are taken. 1 alarm needs attention.'],
  ['an alarm has no rule', up('of_old'), 'Degraded', 'warn', 'Deliveries are taken. 1 alarm needs attention.'],
  [
    'one of two alarms is critical',
    up('dead_letters', 'disk_low'),
    'Degraded',
    'bad',
    'Deliveries are taken. 2 alarms need attention.',
  ],
  [
    'deliveries fail',
    { ...up('failure_run'), failureRun: 3 },
    'Degraded',
    'bad',
    'Deliveries are refused. 1 alarm needs attention.',
  ],
  [
    'deliveries failed, and succeed again',
    { ...up('failure_run'), failureRun: 2 },
    'Degraded',
    'bad',
    'Deliveries are taken. 1 alarm needs attention.',
  ],
  [
    'the service has switched the webhook off',
    { ...up('failure_run'), failureRun: 15 },
    'Not receiving',
    'bad',
    'Deliveries are refused. 1 alarm needs attention.',
  ],
  [
    'no webhook comes',
    { ...up('webhook_silent', 'failure_run'), failureRun: 3 },
    'Not receiving',
    'bad',
    'Deliveries are missing. 2 alarms need attention.',
  ],
  [
    'the secret is wrong',
    up('secret_mismatch'),
    'Not receiving',
    'bad',
    'Deliveries are missing. 1 alarm needs attention.',
  ],
  ['nothing can be written', up('store_unwritable', 'dead_letters'), 'Not receiving', 'bad', NOT_WRITTEN],
  ['the store was replaced', up('store_replaced'), 'Not receiving', 'bad', NOT_WRITTEN],
  [
    'nothing can be written, which also ended a process',
    { ...up('store_unwritable'), processes: { ...UP, receive: 'down' } },
    'Not receiving',
    'bad',
    NOT_WRITTEN,
  ],
  [
    'the receiver is down',
    { ...up('dead_letters'), processes: { receive: 'down', run: 'down', keep: 'up' } },
    'Not receiving',
    'bad',
    'The receive process is down. Start it: npm start.',
  ],
  [
    'another process is down',
    { ...up('disk_low'), processes: { ...UP, run: 'down' } },
    'Degraded',
    'bad',
    'Deliveries are taken, but run is down: see the log.',
  ],
  [
    'both others are down',
    { processes: { receive: 'up', run: 'down', keep: 'down' } },
    'Degraded',
    'bad',
    'Deliveries are taken, but run and keep are down: see the log.',
  ],
])('when %s', (_, what, word, tone, words) => {
  expect(health({ ...well, ...what }, RULES)).toEqual({ word, tone, words });
});

test('without the module alarms nothing is said to be well', () => {
  const { word, tone, words } = health(well, {});
  expect([word, tone]).toEqual(['Receiving', 'warn']);
  expect(words).toContain('This kit has no alarms (src/alarms)');
});
