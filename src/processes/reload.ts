// The signals that ask for a reload: SIGUSR2 from `npx kit reload`, and SIGHUP from systemd. On a terminal SIGHUP means
// that the terminal is gone. Import this file first: without a listener an early signal would end the process.

const onTerminal = process.stdout.isTTY;
let reload: (() => void) | undefined;
let hangUp = (): void => process.exit(0);
let asked = false;

function ask(): void {
  asked = true;
  reload?.();
}

process.on('SIGUSR2', ask);
process.on('SIGHUP', () => (onTerminal ? hangUp() : ask()));

/** Calls `work` for each request from now on, and now if one came earlier. Calls `end` when the terminal is gone. */
export function onReload(work: () => void, end: () => void): void {
  reload = work;
  hangUp = end;
  if (asked) work();
}
