import { expect, test } from 'vitest';
import { createClock, deliver, fixture } from '#kit/testing';
import handler from './log.ts';

test('the log names the message by its id, and holds nothing that its writer wrote', async () => {
  const { log } = await deliver(handler, fixture('MessageReceived', { data: { message_id: 'm1', body: 'private' } }));
  expect(log).toContainEqual(expect.objectContaining({ msg: 'message received', messageId: 'm1', late: false }));
  expect(JSON.stringify(log)).not.toMatch(/private|15550100/);
});

test('a message older than ten minutes is skipped', async () => {
  const old = fixture('MessageReceived', { createdAt: '2026-01-01T00:00:00.000Z' });
  const { tasks } = await deliver(handler, old, { clock: createClock('2026-01-01T00:10:01.000Z') });
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
});
