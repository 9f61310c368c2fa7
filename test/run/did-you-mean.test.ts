// What was probably meant by a type that nobody knows.
import { expect, test } from 'vitest';
import { unknownTypes } from '../../src/run/load.ts';
import { nearestType } from '../../src/run/did-you-mean.ts';

test.each<[string, string | undefined]>([
  ['MesageReceived', 'MessageReceived'],
  ['messagereceived', 'MessageReceived'],
  ['MessageRecieved', 'MessageReceived'],
  ['MessagesReceived', 'MessageReceived'],
  ['Messagesent', 'MessageSent'],
  ['MessageSend', 'MessageSent'],
  ['MessageStatusUpdate', 'MessageStatusUpdated'],
  ['webhook-ping', 'webhook.ping'],
  ['kit.gaps', 'kit.gap'],
  ['CampaignUpdated', undefined],
  ['', undefined],
  ['x'.repeat(10_000), undefined],
])('E61: %s is near to %s', (type, nearest) => {
  expect(nearestType(type)).toBe(nearest);
});

test('E61: what is known is no slip, nor is what takes all; names of objects are no types', () => {
  expect(unknownTypes({ on: '*' })).toEqual([]);
  expect(unknownTypes({ on: new Set(['MessageReceived', 'kit.gap']) })).toEqual([]);
  expect(unknownTypes({ on: new Set(['constructor', 'Mine']) }).map(({ type }) => type)).toEqual([
    'constructor',
    'Mine',
  ]);
});
