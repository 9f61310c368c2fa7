// The sentence about the health of the kit, as a function of the status.
import { expect, test } from 'vitest';
import { UNREAD } from '../../../src/keep/view.ts';
import type { AlarmRules } from '../../../src/keep/module.ts';
import { health } from '../../../src/ops/pages/health.ts';
import type { Status } from '../../../src/store/read.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';

const RULES: AlarmRules = { can_wait: { gravity: 'warning' }, critical: { gravity: 'critical' } };
const well: Status = {
  ...UNREAD,
  events: 5,
  watermark: '5' as Cursor,
  reconcile: { ...UNREAD.reconcile, state: 'idle' },
};
const alarm = (name: string) => ({ name, since: '2026-01-01T00:00:00.000Z', detail: '' });
const none = { held: 0, ready: 0, running: 0, done: 0, skipped: 0, dead: 0 };
test.each<[string, Partial<Status>, 'good' | 'warn' | 'bad', string]>([
  ['all is done', {}, 'good', 'all is handled, and nothing is missing.'],
  ['there is work', { tasks: { ...none, ready: 1_999 }, unassigned: 1 }, 'good', '2,000 tasks are on the way'],
  ['one task is left', { tasks: { ...none, running: 1 } }, 'good', '1 task is on the way'],
  ['nothing is proved yet', { watermark: null }, 'good', 'nothing is missing as far as known'],
  ['nothing has come', { events: 0 }, 'good', 'register the webhook'],
  ['an alarm can wait', { alarms: [alarm('can_wait')] }, 'warn', 'Receiving. 1 alarm needs attention.'],
  ['an alarm cannot', { alarms: [alarm('can_wait'), alarm('critical')] }, 'bad', 'Receiving. 2 alarms need attention.'],
  ['an alarm has no rule', { alarms: [alarm('of_another_version')] }, 'warn', 'Receiving. 1 alarm needs attention.'],
])('when %s', (_, what, tone, words) => {
  const said = health({ ...well, ...what }, RULES);
  expect(said.tone).toBe(tone);
  expect(said.words).toContain(words);
});

test('a process that is down is named before anything else, and the receiver before the other processes', () => {
  const processes = { receive: 'up', run: 'down', keep: 'up' } as const;
  const alarms = [alarm('critical')];
  expect(health({ ...well, processes, alarms }, RULES)).toMatchObject({
    tone: 'bad',
    words: expect.stringContaining('but run is down'),
  });
  expect(health({ ...well, processes: { ...processes, receive: 'down' } }, RULES).words).toMatch(/^Not receiving/);
});

test('when recovery is off, the sentence says that missed events are not fetched, and what switches it on', () => {
  const reconcile = { ...well.reconcile, state: 'off' } as const;
  expect(health({ ...well, reconcile }, RULES).words).toMatch(/not fetched: set API_BASE_URL and API_KEY/);
  expect(health({ ...well, reconcile }, RULES).words).not.toContain('nothing is missing');
});
