// NODE_OPTIONS loads this file into every process of the kit. The file KIT_CLOCK says how far to move the wall clock.
// Four times a second the main process writes into KIT_LOOP how long its event loop was blocked, and how long it waited
// for a core. All files are opened at the start, because a fault may make it impossible to open files later.
import { openSync, readSync, writeSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const RESOLUTION_MS = 10;
const { KIT_CLOCK: clock, KIT_LOOP: loop } = process.env;
const realNow = Date.now.bind(Date);

if (clock !== undefined) {
  const ahead = follow(clock);
  let off = Number(ahead());
  setInterval(() => (off = Number(ahead())), 20).unref();
  Date.now = () => realNow() + off;
}

if (loop !== undefined && process.argv[2]?.endsWith('src/main.ts')) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const scheduled = follow('/proc/self/schedstat');
  const waited = (): number => Number(scheduled().split(' ')[1]) / 1e6;
  const lines = openSync(loop, 'a');
  let before = waited();
  setInterval(() => {
    const [longest, now] = [delay.max / 1e6 - RESOLUTION_MS, waited()];
    writeSync(lines, `${longest.toFixed(1)} ${(now - before).toFixed(1)}\n`);
    before = now;
    delay.reset();
  }, 250).unref();
}

/** Returns a function that reads the file again from its beginning. */
function follow(path: string): () => string {
  const file = openSync(path, 'r');
  const bytes = Buffer.alloc(100);
  return () => bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, 0));
}
