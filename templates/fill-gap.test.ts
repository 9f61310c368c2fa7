import { expect, test } from 'vitest';
import { crash, deliver, fixture, recorder, serviceError } from '#kit/testing';
import handler from './fill-gap.ts';

const list = Array.from({ length: 450 }, (_, i) => ({
  id: `c${i}`,
  status: 'open',
  unread_count: i,
  last_message_at_unix_ms: '1767225600000',
}));

/** Pages of 200 conversations, like the service's (contract 4.5). */
function page({ cursor = '0' }: Record<string, unknown>) {
  const from = Number(cursor);
  const next = from + 200;
  return { conversations: list.slice(from, next), next_cursor: next < list.length ? String(next) : '' };
}

test('a gap is closed when every page is fetched, despite a failure and a crash', async () => {
  let calls = 0;
  const bad = [serviceError('RATE_LIMITED', 'RATE_LIMITED'), crash];
  const service = recorder({
    ListConversations: (request) => (request['cursor'] === '200' ? (bad[calls++] ?? page(request)) : page(request)),
  });
  const { tasks, query, gaps } = await deliver(handler, fixture('kit.gap'), { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(await query('select count(*) as n, max(unread) as most from fill_gap_conversations')).toEqual([
    { n: 450, most: 449 },
  ]);
  expect(gaps).toMatchObject([{ closedBy: 'handler' }]);
});

test('a field of another shape than in the contract is stored as null, and an item without an id is left out', async () => {
  const conversations = [
    { id: 'odd', status: 7, unread_count: 1.5, last_message_at_unix_ms: 'soon' },
    { id: 7, status: 'open' },
  ];
  const service = recorder({ ListConversations: { conversations, next_cursor: '' } });
  const { tasks, query } = await deliver(handler, fixture('kit.gap'), { service });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(await query('select * from fill_gap_conversations')).toEqual([
    { id: 'odd', status: null, unread: null, last_at: null },
  ]);
});
