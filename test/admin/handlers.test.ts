// Pausing and resuming handlers: which names are accepted, what the store is told, and the messages.
import { expect, test, vi } from 'vitest';
import type { AdminError } from '../../src/admin/error.ts';
import { pauseHandler, resumeHandler } from '../../src/admin/handlers.ts';
import type { HandlerFigures } from '../../src/store/read.ts';
import type { Store } from '../../src/store/store.ts';

const NOW = 1_000;

/** A store that knows the handler `answer`. `isPaused`: whether a pause can be ended. */
function createHandlers(isPaused = true) {
  const answer: HandlerFigures = {
    name: 'answer',
    loaded: true,
    paused: null,
    waiting: 0,
    oldestSeconds: null,
    dead: 0,
  };
  const [pause, resume] = [vi.fn(), vi.fn(async () => isPaused)];
  const store = { read: { handlers: async () => [answer] }, admin: { pause, resume } };
  return { store: store as unknown as Pick<Store, 'read' | 'admin'>, pause, resume };
}

const refusal = (code: AdminError['code'], message: string) => expect.objectContaining({ code, message });

test.each([
  ['answer', 'answer is paused'],
  [null, 'all handlers are paused'],
])('pausing %s says that its tasks wait, and keeps the reason without spaces around it', async (handler, words) => {
  const { store, pause } = createHandlers();
  expect(await pauseHandler(store, { handler, reason: ' answers twice ' }, NOW)).toContain(words);
  expect(pause).toHaveBeenCalledWith(handler, 'answers twice', NOW);
});

test.each([undefined, '', '  '])('a pause without a reason (%j) has none', async (reason) => {
  const { store, pause } = createHandlers();
  await pauseHandler(store, { handler: 'answer', reason }, NOW);
  expect(pause).toHaveBeenCalledWith('answer', null, NOW);
});

test.each([
  ['answer', 'answer goes on'],
  [null, 'all handlers go on'],
])('resuming %s says that it goes on', async (handler, words) => {
  const { store, resume } = createHandlers();
  expect(await resumeHandler(store, handler, NOW)).toBe(words);
  expect(resume).toHaveBeenCalledWith(handler, NOW);
});

test.each([
  ['answer', 'answer is not paused'],
  [null, 'no handler is paused'],
])('resuming %s while nothing is paused is refused', async (handler, words) => {
  const { store } = createHandlers(false);
  await expect(resumeHandler(store, handler, NOW)).rejects.toEqual(refusal('missing', words));
});

test('a handler that the store does not know is not paused, and resumed only if its name is paused', async () => {
  const { store, pause } = createHandlers(false);
  const unknown = refusal('missing', 'no handler is named "anwser"');
  await expect(pauseHandler(store, { handler: 'anwser' }, NOW)).rejects.toEqual(unknown);
  await expect(resumeHandler(store, 'anwser', NOW)).rejects.toEqual(unknown);
  expect(pause).not.toHaveBeenCalled();
  expect(await resumeHandler(createHandlers().store, 'anwser', NOW)).toBe('anwser goes on');
});
