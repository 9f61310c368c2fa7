// Calls synchronous functions of the user within a time limit. Only `vm` can cut off a function that never returns.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Script } from 'node:vm';

const SLOT = Symbol.for('kit.limited');
const slot: { work: () => unknown } = { work: () => undefined };
Object.defineProperty(globalThis, SLOT, { value: () => slot.work() });
const script = new Script(`globalThis[Symbol.for('kit.limited')]()`, { filename: 'kit.limited' });

/** 'timeout': `work` was cut off. Throws what `work` throws. A call costs 0.2 ms, so `work` should do much. */
export function within<Result>(ms: number, work: () => Result): { result: Result } | 'timeout' {
  slot.work = work;
  // A function that is cut off leaves its own AsyncLocalStorage context behind. The snapshot restores ours.
  const ours = AsyncLocalStorage.snapshot();
  try {
    return { result: ours(() => script.runInThisContext({ timeout: ms }) as Result) };
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return 'timeout';
    throw error;
  }
}
