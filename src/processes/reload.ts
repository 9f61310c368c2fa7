// SIGUSR2 asks for a reload, on a terminal as well (npx kit reload). Imported first, so that a kit that starts takes the
// signal for later: without a listener it would end the process.

let reload: (() => void) | undefined;
let asked = false;

process.on('SIGUSR2', () => {
  asked = true;
  reload?.();
});

/** From now on; at once where it was asked before. */
export function onReload(work: () => void): void {
  reload = work;
  if (asked) work();
}
