// Verifying and reading a body of megabytes takes the loop for tens of milliseconds. One of them has its turn of the
// loop, so that small deliveries are answered between two.

/** A body above this waits for its turn. Bytes. */
const LARGE = 512 * 1024;

export interface Turns {
  /** At once for a small body. */
  wait(bytes: number): Promise<void>;
}

export function createTurns(): Turns {
  let last = Promise.resolve();
  return {
    async wait(bytes) {
      if (bytes <= LARGE) return;
      last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
      await last;
    },
  };
}
