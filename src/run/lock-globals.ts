// Locks the globals that all handlers share. If a handler replaced one, for example with a test clock, it would break
// every other handler. In a module, an assignment to a locked global throws an error whose stack names the line.
// Prototypes stay unlocked: if `Error.prototype` were frozen, libraries could not name their own errors.
const PARTS: [object, string[]][] = [
  [
    globalThis,
    [
      ...['Array', 'BigInt', 'Date', 'Error', 'JSON', 'Map', 'Math', 'Number', 'Object', 'Promise', 'Reflect', 'Set'],
      ...['String', 'Symbol', 'WeakMap', 'clearImmediate', 'clearInterval', 'clearTimeout', 'queueMicrotask'],
      ...['setImmediate', 'setInterval', 'setTimeout', 'structuredClone', 'process', 'Buffer'],
    ],
  ],
  [JSON, ['parse', 'stringify']],
  [Math, Object.getOwnPropertyNames(Math)],
  [Date, ['now', 'parse', 'UTC']],
  [Object, ['freeze', 'keys', 'entries', 'values', 'fromEntries', 'defineProperty', 'assign']],
  [Promise, ['all', 'race', 'resolve', 'reject', 'allSettled', 'withResolvers']],
  [performance, ['now']],
  [process, ['exit', 'send']],
];

export function lockGlobals(): void {
  for (const [object, names] of PARTS) for (const name of names) lock(object, name);
}

function lock(object: object, name: string): void {
  const value: unknown = Reflect.get(object, name);
  // `process.send` is undefined if no parent process has a channel to this one.
  if (value !== undefined) Object.defineProperty(object, name, { value, writable: false, configurable: false });
}
