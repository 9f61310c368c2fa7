// Shared by the commands `bench`, `pressure` and `prove`: checks of arguments, and an orderly exit on a signal.

/** A count from the command line. Throws Error with a message for the person who typed it. */
export function whole(name: string, given: string, least: number): number {
  if (/^\d{1,9}$/.test(given) && Number(given) >= least) return Number(given);
  throw new Error(`${name} ${JSON.stringify(given)} must be a whole number of at least ${least}.`);
}

/** Exits normally on SIGINT and SIGTERM, so that `exit` listeners also clean up after an interruption. */
export function endsWithSignals(): void {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)
    process.once(signal, () => process.exit(code));
}
