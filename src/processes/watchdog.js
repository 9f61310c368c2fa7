// A thread beside each child's own, which a handler may block. It ends the child when the main process is gone. If a
// handler blocks the child, it lets the child name the line.
import { workerData } from 'node:worker_threads';

/** `beats` holds the signs of life of the child's own thread. 0: it is not watched yet. */
const { owner, pid, beats } = workerData;
const LOOK_MS = 200;
/** Less than the time after which the main process kills a child that is blocked. */
const BLOCKED_MS = 8_500;

let seen = 0;
let lookedAt = performance.now();
let stillMs = 0;

setInterval(() => {
  if (process.ppid !== owner) process.kill(pid, 'SIGKILL');
  const now = Atomics.load(beats, 0);
  // If all threads were stopped for a while, the time of one look counts.
  const ms = Math.min(performance.now() - lookedAt, 2 * LOOK_MS);
  lookedAt = performance.now();
  const before = stillMs;
  stillMs = now === seen ? before + ms : 0;
  seen = now;
  if (now > 0 && before < BLOCKED_MS && stillMs >= BLOCKED_MS) void report();
}, LOOK_MS);

/** Calls the function of src/run/stray-errors.ts in the blocked thread. It returns true if a handler is to blame. */
async function report() {
  const { Session } = await import('node:inspector');
  const session = new Session();
  const files = new Map();
  session.connectToMainThread();
  session.on('Debugger.scriptParsed', ({ params }) => files.set(params.scriptId, params.url));
  session.once('Debugger.paused', ({ params }) => {
    const lines = params.callFrames.map(
      ({ location: at }) => `\n    at ${files.get(at.scriptId)}:${at.lineNumber + 1}:1`,
    );
    const expression = `globalThis[Symbol.for('kit.blocked')](${JSON.stringify(lines.join(''))})`;
    session.post('Runtime.evaluate', { expression }, (_, { result } = {}) => {
      // Not by the blocked thread itself, which would first wait for its debugger.
      if (result?.value === true) process.kill(pid, 'SIGKILL');
      else session.disconnect();
    });
  });
  session.post('Debugger.enable');
  session.post('Debugger.pause');
}
