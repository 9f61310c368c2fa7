// Shared by the tests of one attempt: its claim, its start, and its settlement. The clock is set by the test.
import { AsyncLocalStorage } from 'node:async_hooks';
import { startAttempt, type Attempt } from '../../src/run/attempt.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { Claim, Settlement, WorkStore } from '../../src/store/work.ts';
import { createClock, createLines, handlerOf, noService, storedEvent, T0 } from './fixture.ts';

export function claimed(fields: Partial<Claim> = {}): Claim {
  return {
    task: 4_097,
    handler: 1,
    event: storedEvent(),
    lane: 1,
    rerun: 0,
    alone: false,
    attempt: 1,
    boot: 1,
    late: false,
    unproven: false,
    startedAt: T0,
    deferredMs: 0,
    error: null,
    chain: { recalled: false },
    notes: {},
    ...fields,
  };
}

export function start(
  handler: Partial<Loaded>,
  claim = claimed(),
  store: Pick<WorkStore, 'complete' | 'noteTask' | 'read'> = never,
  clock = createClock(),
): Attempt {
  const { log } = createLines();
  return startAttempt(claim, handlerOf(handler), {
    store,
    serviceFor: noService,
    clock,
    log,
    scopes: new AsyncLocalStorage(),
  });
}

/** The store of attempts that do not call `ctx.complete`. */
export const never: Pick<WorkStore, 'complete' | 'noteTask' | 'read'> = {
  complete: () => Promise.reject(new Error('no store in this test')),
  noteTask: () => Promise.reject(new Error('no store in this test')),
  read: () => Promise.reject(new Error('no store in this test')),
};

export async function settle(
  handle: Loaded['handle'],
  claim = claimed(),
  handler: Partial<Loaded> = {},
): Promise<Settlement> {
  const settlement = await start({ ...handler, handle }, claim).settled;
  if (!settlement) throw new Error('expected a settlement');
  return settlement;
}

export function throwing(thrown: unknown): Loaded['handle'] {
  return () => {
    throw thrown;
  };
}
