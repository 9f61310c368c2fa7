// Memory for large bodies: from which size they need room, and how much there is for all. First come, first served.

/** Bytes. Bodies up to this size need no room, because the number of connections is limited. */
export const SMALL = 64 * 1_024;
const BUDGET = 32 * 2 ** 20;
/** A delivery waits at most this long for room: it must still be read and committed within DEADLINE_MS (commit.ts). */
const ROOM_MS = 7_000;

export function createRoom() {
  let free = BUDGET;
  let waiting: { bytes: number; grant: () => void }[] = [];

  function next(): void {
    for (let [first] = waiting; first && (first.bytes <= free || free === BUDGET); [first] = waiting) {
      waiting.shift();
      free -= first.bytes;
      first.grant();
    }
  }

  /** Resolves to a function that gives the room back. Undefined: there was no room in time. */
  return (bytes: number): Promise<(() => void) | undefined> =>
    new Promise((resolve) => {
      const release = (): void => {
        free += bytes;
        next();
      };
      const mine = { bytes, grant: (): void => (clearTimeout(timer), resolve(release)) };
      const timer = setTimeout(() => {
        waiting = waiting.filter((one) => one !== mine);
        resolve(undefined);
      }, ROOM_MS);
      waiting.push(mine);
      next();
    });
}
