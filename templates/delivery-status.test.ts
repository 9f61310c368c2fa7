import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './delivery-status.ts';

const update = (message_id: unknown, status: unknown) =>
  fixture('MessageStatusUpdated', { data: { message_id, status } });
const STATUSES = 'select message_id as id, status from delivery_status order by id';

test.each(['given', 'reversed', 'shuffled'] as const)('a status never goes backwards (order: %s)', async (order) => {
  const events = [update('m1', 'SENT'), update('m1', 'DELIVERED'), update('m1', 'READ'), update('m2', 'sent')];
  const { query } = await deliver(handler, events, { order, times: 2, apartMs: 1_000, crashAfter: 2 });
  expect(await query(STATUSES)).toEqual([
    { id: 'm1', status: 'read' },
    { id: 'm2', status: 'sent' },
  ]);
});

test.each([
  ['no message_id', update(7, 'SENT'), 'no message_id'],
  ['an unknown status', update('m1', 'TELEPATHIC'), 'no status from STEPS'],
  ['no status, as the contract allows', fixture('MessageStatusUpdated'), 'no status from STEPS'],
])('an update with %s is skipped, for a reason that names the field', async (_, event, words) => {
  const { tasks } = await deliver(handler, event);
  expect(tasks).toMatchObject([{ state: 'skipped', error: expect.stringContaining(words) }]);
});
