// What all handlers share in this process: a handler that puts something of its own in their place, a clock of a test say,
// would take all others with it. In a module an assignment to what is locked throws, and names its line.
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
  // Without an owner there is no channel to send by.
  if (value === undefined) return;
  Object.defineProperty(object, name, { value, writable: false, configurable: false });
}
