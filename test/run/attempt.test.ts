// One attempt: each way in which a handler can end.
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test } from 'vitest';
import { Skip, type Context, type KitEvent } from '../../src/kit.ts';
import { readEvent } from '../../src/run/event.ts';
import type { Loaded } from '../../src/run/load.ts';
import type { Scope } from '../../src/run/stray.ts';
import { createLines, message, run, start, taskOf } from './fixture.ts';

const never = (): Promise<void> => new Promise(() => {});
const throwing = (thrown: unknown) => (): never => {
  throw thrown;
};

describe('a handler that', () => {
  test.each<[string, () => unknown]>([
    ['returns', () => {}],
    ['resolves', async () => {}],
    ['returns something', () => 5],
    ['returns a thenable', () => ({ then: (resolve: () => void) => resolve() })],
  ])('%s is done', async (_, handle) => {
    expect(await run(handle as Loaded['handle'])).toEqual({ event: 1, as: 'done', error: null });
  });

  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const bomb = (name: string): unknown =>
    Object.defineProperty(new Error('x'), name, { get: throwing(new Error('bomb')) });
  test.each<[string, unknown]>([
    ['a text', 'no'],
    ['undefined', undefined],
    ['a symbol', Symbol('no')],
    ['a frozen error', Object.freeze(new Error('no'))],
    ['an object without a prototype', Object.create(null)],
    ['an error whose message explodes', bomb('message')],
    ['an error whose stack explodes', bomb('stack')],
    ['a revoked proxy', revoked.proxy],
    ['an error with a megabyte of message', new Error('x'.repeat(1_000_000))],
  ])('F21: throws %s, or rejects with it, has failed an attempt', async (_, thrown) => {
    for (const handle of [throwing(thrown), async () => throwing(thrown)()]) {
      const outcome = await run(handle);
      expect(outcome).toMatchObject({ as: 'again', spent: true });
      expect(outcome?.error?.length).toBeLessThan(3_000);
    }
  });

  test('F22: never resolves has failed after its time limit, and its signal is aborted', async () => {
    let ctx: Context | undefined;
    const handle: Loaded['handle'] = (_, given) => ((ctx = given), never());
    const outcome = await start({ handle, timeoutMs: 5 }).done;
    expect(outcome).toMatchObject({ as: 'again', error: expect.stringContaining('Timeout: no result within 5 ms') });
    expect(ctx?.signal.aborted).toBe(true);
  });

  test('must not run is not run, and its dead letter is logged', async () => {
    const { log, lines } = createLines();
    const outcome = await run(throwing(new Skip('it ran')), { event: readEvent(message({ from: 5 })), log });
    expect(outcome).toMatchObject({ as: 'dead' });
    expect(lines).toMatchObject([{ level: 50, handler: 'one', key: 'c:1', attempt: 1 }]);
  });

  test('fails is logged with its line, and without a text that may be a stranger’s', async () => {
    const { log, lines } = createLines();
    await run(throwing(new Error('a message from +49 170 1234567')), { log });
    expect(lines).toMatchObject([{ level: 40, error: 'Error', at: expect.stringMatching(/attempt\.test\.ts:\d+$/) }]);
    expect(JSON.stringify(lines)).not.toContain('1234567');
  });

  test.each<[string, () => Promise<void> | void]>([
    ['waits', never],
    ['returns as if nothing were', () => {}],
  ])('has a stray error and %s fails by it, and no other attempt does', async (_, then) => {
    const scopes = new AsyncLocalStorage<Scope>();
    let scope: Scope | undefined;
    const handle = (): Promise<void> | void => {
      scope = scopes.getStore();
      scope?.fail(new Error('stray'));
      return then();
    };
    const stray = start({ handle }, { scopes });
    const other = start({ handle: async () => {} }, { scopes });
    expect(await stray.done).toMatchObject({ as: 'again', error: expect.stringContaining('Error: stray') });
    expect(await other.done).toMatchObject({ as: 'done' });
    expect(scope?.fail(new Error('after its end'))).toBe(false);
  });
});

describe('a stop', () => {
  test.each<[string, Loaded['handle']]>([
    ['fails when its signal is aborted', (_: KitEvent, { signal }: Context) => aborted(signal)],
    ['ignores its signal', never],
  ])('counts no attempt if the handler %s', async (_, handle) => {
    const attempt = start({ handle }, { task: taskOf({ attempts: 19 }) });
    attempt.drain();
    setImmediate(() => attempt.abandon());
    expect(await attempt.done).toBeNull();
  });

  const aborted = (signal: AbortSignal): Promise<void> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));

  test('lets a handler finish if it still can', async () => {
    const gate = Promise.withResolvers<void>();
    const attempt = start({ handle: () => gate.promise });
    attempt.drain();
    gate.resolve();
    expect(await attempt.done).toMatchObject({ as: 'done' });
  });
});
