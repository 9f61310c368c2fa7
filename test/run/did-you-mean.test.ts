// Finds the known event type that was probably meant by an unknown one.
import { expect, test } from 'vitest';
import { unknownTypes } from '../../src/run/load-handlers.ts';
import { nearestField, nearestType } from '../../src/run/did-you-mean.ts';

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
])('E61: the nearest type to %s is %s', (type, nearest) => {
  expect(nearestType(type)).toBe(nearest);
});

test("E61: known types and '*' are not reported, and names of object properties are", () => {
  expect(unknownTypes({ on: '*' })).toEqual([]);
  expect(unknownTypes({ on: new Set(['MessageReceived', 'kit.gap']) })).toEqual([]);
  expect(unknownTypes({ on: new Set(['constructor', 'Mine']) }).map(({ type }) => type)).toEqual([
    'constructor',
    'Mine',
  ]);
});

test.each([
  ['MessageReceived', 'bdoy', 'body'],
  ['MessageReceived', 'Form', 'from'],
  ['MessageReceived', 'body', undefined],
  ['MessageReceived', 'reactions', undefined],
  ['MessageReceived', '__proto__', undefined],
  ['MessageReceived', 'constructor', undefined],
  ['MessageSent', 'bdoy', undefined],
  ['__proto__', 'body', undefined],
  ['Nobody', 'body', undefined],
])('in the data of %s, %s is nearest to %s', (type, field, nearest) => {
  expect(nearestField(type, field)).toBe(nearest);
});
