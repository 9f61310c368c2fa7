// The one kind of loop. A step does its work and returns how long to wait until the next; a loop can be woken early
// and stopped. It refuses to swallow errors: a step that throws ends its process, unless `recover` knows better.

export interface Loop {
  /** Takes the next step now; during a step, takes another right after it. */
  wake(): void;
  /** Takes no further step; resolves when the one at work has ended. */
  stop(): Promise<void>;
}

/** Longer timers would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

export function startLoop(
  /** Milliseconds until the next step; Infinity waits to be woken. */
  step: () => number | Promise<number>,
  /** Milliseconds until the next try after an expected error; throws what it does not expect. */
  recover: (error: unknown) => number = rethrow,
): Loop {
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> | undefined;
  let again = false;
  let stopped = false;

  async function work(): Promise<void> {
    let delay: number;
    try {
      // Awaited even where it throws at once, so that `working` is set before it is cleared.
      delay = await Promise.resolve().then(step);
    } catch (error) {
      delay = recover(error);
    }
    working = undefined;
    if (stopped) return;
    // Not at once: sockets and timers get their turn between two steps, however often the loop is woken.
    if (again || delay <= 0) setImmediate(run);
    else timer = setTimeout(run, Math.min(delay, LONGEST_MS));
  }

  function run(): void {
    clearTimeout(timer);
    if (working || stopped) return;
    again = false;
    working = work();
    working.catch((error: unknown) => {
      // Who stops the loop is told. As a rejection it could be taken for one that a handler has left unawaited.
      if (!stopped) setImmediate(() => rethrow(error));
    });
  }

  run();
  return {
    wake() {
      if (again) return;
      again = true;
      if (!working) setImmediate(run);
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await working;
    },
  };
}

function rethrow(error: unknown): never {
  throw error;
}
