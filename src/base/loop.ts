// The only kind of background loop in the kit. A step does its work and returns how long to wait until the next one. A
// loop can be woken early and stopped. A step that throws ends the process, unless `recover` expects the error.
import { throwUncaught } from './errors.ts';

/** The longest delay that a timer can have. With a longer delay Node fires the timer at once. */
const LONGEST_MS = 2 ** 31 - 1;

export type Loop = ReturnType<typeof startLoop>;

export function startLoop(
  /** Milliseconds until the next step. Infinity: until the loop is woken. */
  step: () => number | Promise<number>,
  /** After an expected error: milliseconds until the next try. Throws every other error. */
  recover: (error: unknown) => number = (error) => {
    throw error;
  },
) {
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> | undefined;
  let again = false;
  let stopped = false;

  async function work(): Promise<void> {
    let delay: number;
    try {
      // `then` delays the step until `working` is set: a step that throws at once would otherwise clear it too early.
      delay = await Promise.resolve().then(step);
    } catch (error) {
      delay = recover(error);
    }
    working = undefined;
    if (stopped) return;
    // Sockets and timers are served between two steps.
    if (again || delay <= 0) setImmediate(run);
    else timer = setTimeout(run, Math.min(delay, LONGEST_MS));
  }

  function run(): void {
    clearTimeout(timer);
    if (working || stopped) return;
    again = false;
    working = work();
    working.catch((error: unknown) => {
      // After `stop` was called, the promise that `stop` returned rejects with the error.
      if (!stopped) throwUncaught(error);
    });
  }

  run();
  return {
    /** Takes the next step now. If a step is at work, the next one follows right after it. */
    wake(): void {
      if (again) return;
      again = true;
      if (!working) setImmediate(run);
    },
    /** Takes no further step. Resolves when the present step has ended. */
    async stop(): Promise<void> {
      stopped = true;
      clearTimeout(timer);
      await working;
    },
  };
}
