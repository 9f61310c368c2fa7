// Verifying and reading a body of megabytes takes the loop for tens of milliseconds. One of them has its turn of the
// loop, so that small deliveries are answered between two.

/** A body above this waits for its turn. Bytes. */
const LARGE = 512 * 1024;

export interface Turns {
  /** Undefined: a small body has its turn at once. */
  wait(bytes: number): Promise<void> | undefined;
}

export function createTurns(): Turns {
  let last = Promise.resolve();
  return {
    wait(bytes) {
      if (bytes <= LARGE) return undefined;
      last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
      return last;
    },
  };
}
