// Handlers that misbehave on a poisoned event, each in its own way. They handle every other event normally.
export const culprit = (deed: string): string => `
export default {
  on: 'MessageReceived',
  lane: 'none',
  order: 'arrival',
  timeoutMs: 500,
  retry: { attempts: 2, firstMs: 10, maxMs: 20 },
  async handle(event) {
    if (event.data.body === 'poison') ${deed};
  },
};
`;

export interface Deed {
  deed: string;
  /** The final state of the poisoned event's task. Default: dead. */
  state?: 'done' | 'done or dead';
}

/** Each name has the fault's number (F21 to F30) and its description. */
export const DEEDS: Record<string, Deed> = {
  'F21: throws a frozen error': { deed: `throw Object.freeze(new Error('cold'))` },
  'F21: throws what is no error and cannot be read': {
    deed: `throw { get message() { throw new Error('trap'); } }`,
  },
  'F22: never resolves': { deed: 'await new Promise(() => {})' },
  'F23: spins for ever': { deed: 'for (;;);' },
  'F24: calls process.exit': { deed: 'process.exit(0)' },
  'F24: aborts its process': { deed: 'process.abort()' },
  'F24: dies of SIGSEGV': { deed: `process.kill(process.pid, 'SIGSEGV')` },
  'F25: fills the heap until its process dies': {
    deed: 'for (const all = []; ; ) all.push(new Array(1e5).fill(event))',
  },
  'F25: keeps a gigabyte of buffers': {
    deed: `globalThis.kept = Array.from({ length: 16 }, () => Buffer.alloc(2 ** 26, 1))`,
    state: 'done',
  },
  'F25: opens files until there are no more': {
    deed: `{ const { openSync } = await import('node:fs'); for (;;) openSync('/dev/null'); }`,
  },
  'F25: leaves ten thousand timers behind': {
    deed: 'for (let n = 0; n < 10_000; n++) setInterval(() => {}, 10)',
    state: 'done',
  },
  'F26: rejects unawaited while it is at work': {
    deed: `void Promise.reject(new Error('astray')); await new Promise((resolve) => setTimeout(resolve, 200))`,
  },
  'F26: forgets to await ctx.complete, whose work throws': {
    deed: `void arguments[1].complete(() => { throw new Error('astray'); }); for (let n = 0; n < 20; n++) await null;`,
  },
  'F26: throws in a timer after it has resolved': {
    deed: `setTimeout(() => { throw new Error('late'); }, 50)`,
    state: 'done',
  },
  'F27: changes the event': { deed: `event.data.body = 'changed'` },
  'F27: replaces JSON.parse': { deed: `JSON.parse = () => ({})`, state: 'done or dead' },
  'F27: replaces Date.now': { deed: `Date.now = () => NaN` },
  'F29: kills its process every time': { deed: `process.kill(process.pid, 'SIGKILL')` },
};
