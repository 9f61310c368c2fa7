// The words for the lane of a task.
import { expect, test } from 'vitest';
import { laneWords, type Found } from '../../src/admin/timeline.ts';

const session = '00000000-0000-4000-8000-000000000001';

test.each<[string | null, Partial<Found['event']>, RegExp]>([
  [null, {}, /in no lane/],
  ['c:1', {}, /lane of its own/],
  ['', { origin: 'webhook' }, /account's lane: its data name no session, and strict order/],
  ['', { origin: 'replay', sessionId: null }, /account's lane: it names no session/],
  ['', { origin: 'replay' }, /account's lane: its data name no session, and replay, which brought it/],
  [session, {}, /its session's lane/],
  [`${session}/5511999`, {}, /its conversation's lane$/],
  ['/5511999', {}, /conversation's lane, of no session/],
  ['mine', {}, /that the handler names/],
])('E21: the words for the lane %j of an event %j', (lane, fields, words) => {
  const event = { key: 'c:1', sessionId: session, origin: 'webhook', ...fields } as Found['event'];
  expect(laneWords({ lane }, event)).toMatch(words);
  expect(laneWords({ lane }, event)).not.toContain('5511999');
});
