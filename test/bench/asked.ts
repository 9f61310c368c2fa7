// What the commands that measure and prove have in common: how they are asked, and that they end when they are told to.

/** A count from the command line. Throws Error, in words for who typed it. */
export function whole(name: string, given: string, least: number): number {
  if (/^\d{1,9}$/.test(given) && Number(given) >= least) return Number(given);
  throw new Error(`${name} ${JSON.stringify(given)}: a whole number from ${least} on is needed.`);
}

/** So that what is done at the end of the process is done when it is interrupted, too. */
export function endsWithSignals(): void {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)
    process.once(signal, () => process.exit(code));
}
