import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './status.ts';

const update = (message_id: unknown, status: unknown) =>
  fixture('MessageStatusUpdated', { data: { message_id, status } });
const STATUSES = 'select message_id as id, status from status_messages order by id';

test.each(['given', 'reversed', 'shuffled'] as const)('a status never goes backwards (order: %s)', async (order) => {
  const events = [update('m1', 'SENT'), update('m1', 'DELIVERED'), update('m1', 'READ'), update('m2', 'sent')];
  const { query } = await deliver(handler, events, { order, times: 2, apartMs: 1_000, crashAfter: 2 });
  expect(await query(STATUSES)).toEqual([
    { id: 'm1', status: 'read' },
    { id: 'm2', status: 'sent' },
  ]);
});

test.each([
  ['no message_id', update(7, 'SENT'), 'MessageStatusUpdated has no message_id'],
  ['an unknown status', update('m1', 'TELEPATHIC'), 'its status is none of STEPS'],
])('an event with %s becomes a dead letter that names the problem', async (_, event, words) => {
  const { tasks } = await deliver(handler, event);
  expect(tasks).toMatchObject([{ state: 'dead', error: expect.stringContaining(words) }]);
});
