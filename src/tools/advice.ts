// What to do about the usual mistakes in handlers, by the words of their errors.
const ADVICE: [RegExp, string][] = [
  [/^data does not fit /, 'correct the type there; orElse(…) is for a field that may be missing'],
  [/^Timeout: /, 'await only what ends: pass ctx.signal to calls, or raise timeoutMs'],
  [/^(undefined|object|boolean|number|bigint|string|symbol|function): /, 'throw an Error, which has a line'],
  [/no such table: |relation "[^"]+" does not exist/, 'create the table in setup'],
  [/read only property|object is not extensible/, 'an event is frozen: change a copy of it'],
  [/require is not defined/, 'use import'],
  [/parameter values? w/, 'after the SQL give one value for each ?'],
  [/(parse URL from|Invalid URL:?) undefined/, 'is its variable in .env?'],
];

/** The error with the advice. If it is no usual mistake, the error alone. */
export function advised(error: string): string {
  const known = ADVICE.find(([pattern]) => pattern.test(error));
  return known ? `${error} → ${known[1]}` : error;
}
