import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './conversations.ts';

const messages = ['m1', 'm2', 'm3'].map((message_id) =>
  fixture('MessageReceived', { data: { message_id, from: '15550100' } }),
);
const events = [...messages, fixture('MessageReceived', { data: { message_id: 'm4', from: '15550101' } })];
const LIST = 'select peer, unread, last_message_id as last from conversations order by peer';
const RIGHT = [
  { peer: '15550100', unread: 3, last: 'm3' },
  { peer: '15550101', unread: 1, last: 'm4' },
];

test.each(['given', 'reversed', 'shuffled'] as const)('the list is right in any order of events: %s', async (order) => {
  for (const apartMs of [0, 1_000]) {
    const { query } = await deliver(handler, events, { times: 2, order, apartMs });
    expect(await query(LIST)).toEqual(RIGHT);
  }
});

test.each([1, 2, 3, 4])('no message is counted twice after a crash at run %i of the handler', async (crashAfter) => {
  const { query, tasks } = await deliver(handler, events, { crashAfter });
  expect(tasks.every(({ state }) => state === 'done')).toBe(true);
  expect(await query(LIST)).toEqual(RIGHT);
});
