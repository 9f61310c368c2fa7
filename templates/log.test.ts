import { expect, test } from 'vitest';
import type { Context, KitEvent } from '#kit';
import handler from './log.ts';

test('a message is said by its id, and by nothing that its writer wrote', () => {
  const said: unknown[] = [];
  const log = { info: (...words: unknown[]) => said.push(words) };
  const data = { message_id: 'm1', body: 'private', from: '15550100', push_name: 'Ana' };
  const event = { type: 'MessageReceived', data } as unknown as KitEvent<'MessageReceived'>;
  void handler.handle(event, { log, late: false } as unknown as Context);
  expect(said).toEqual([[{ messageId: 'm1', late: false }, 'message received']]);
});
