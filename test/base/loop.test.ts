// The loop waits as long as its step says, can be woken and stopped, and hides no error.
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { startLoop, type Loop } from '../../src/base/loop.ts';

afterEach(() => void vi.useRealTimers());

/** Waits until everything that is already due has happened. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
}

function start(step: () => number | Promise<number>, recover?: (error: unknown) => number): Loop {
  const loop = recover ? startLoop(step, recover) : startLoop(step);
  onTestFinished(() => loop.stop());
  return loop;
}

test('the first step is taken at once, and the next one after the time that the first returned', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let steps = 0;
  start(() => {
    steps++;
    return 1_000;
  });
  await settle();
  expect(steps).toBe(1);
  vi.advanceTimersByTime(999);
  await settle();
  expect(steps).toBe(1);
  vi.advanceTimersByTime(1);
  await settle();
  expect(steps).toBe(2);
});

test.each([Infinity, 2 ** 31, Number.MAX_SAFE_INTEGER])(
  'a step that asks for %d ms does not fire at once',
  async (delay) => {
    let steps = 0;
    start(() => {
      steps++;
      return delay;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    await settle();
    expect(steps).toBe(1);
  },
);

test('a loop whose steps follow without a pause does not block timers and sockets', async () => {
  let steps = 0;
  start(() => {
    steps++;
    return 0;
  });
  await new Promise((resolve) => setTimeout(resolve, 1));
  await settle();
  expect(steps).toBeGreaterThan(1);
});

test('a loop that is woken several times takes one step at once', async () => {
  let steps = 0;
  const loop = start(() => {
    steps++;
    return Infinity;
  });
  await settle();
  for (let i = 0; i < 10; i++) loop.wake();
  await settle();
  expect(steps).toBe(2);
});

test('a loop that is woken during a step takes another one right after it, and never two at once', async () => {
  const gates: (() => void)[] = [];
  let atWork = 0;
  let most = 0;
  const loop = start(async () => {
    most = Math.max(most, ++atWork);
    await new Promise<void>((resolve) => gates.push(resolve));
    atWork--;
    return Infinity;
  });
  await settle();
  loop.wake();
  loop.wake();
  await settle();
  expect(gates).toHaveLength(1);
  gates[0]?.();
  await settle();
  expect(gates).toHaveLength(2);
  gates[1]?.();
  await settle();
  expect([gates.length, most]).toEqual([2, 1]);
});

test('a stop waits for the current step, and no other step is taken', async () => {
  const gate = Promise.withResolvers<number>();
  let steps = 0;
  let stopped = false;
  const loop = start(() => {
    steps++;
    return gate.promise;
  });
  await settle();
  const stopping = loop.stop().then(() => void (stopped = true));
  loop.wake();
  await settle();
  expect(stopped).toBe(false);
  gate.resolve(0);
  await stopping;
  loop.wake();
  await settle();
  expect(steps).toBe(1);
});

test('after an expected error the step is tried again', async () => {
  const errors: unknown[] = [];
  let steps = 0;
  start(
    () => {
      if (++steps === 1) throw new Error('busy');
      return Infinity;
    },
    (error) => {
      errors.push(error);
      return 0;
    },
  );
  await settle();
  expect(errors).toEqual([new Error('busy')]);
  expect(steps).toBe(2);
});

test('F27: an unexpected error ends the process, even if the process attributes rejections to handlers', async () => {
  const met: unknown[] = [];
  const events: NodeJS.EventEmitter = process;
  for (const name of ['uncaughtException', 'unhandledRejection']) {
    const others = events.rawListeners(name);
    events.removeAllListeners(name).on(name, (error) => void met.push(name, error));
    onTestFinished(() => {
      events.removeAllListeners(name);
      for (const other of others) events.on(name, other as () => void);
    });
  }
  startLoop(() => {
    throw new Error('bug');
  });
  await settle();
  expect(met).toEqual(['uncaughtException', new Error('bug')]);
});

test('an unexpected error during a stop is not lost', async () => {
  const gate = Promise.withResolvers<number>();
  const loop = startLoop(() => gate.promise);
  const stopping = loop.stop();
  gate.reject(new Error('bug'));
  await expect(stopping).rejects.toThrow('bug');
});
