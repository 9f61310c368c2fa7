// Writes variables into .env. What a person has set there stays.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/** Secrets that the simulator has made. A new rehearsal may replace them. */
const OURS = /^(svc_test_[\da-f]{32}|whsec_[\da-f]{32}|http:\/\/127\.0\.0\.1:\d+\/v1)$/;

/** Returns what it did, in words. If a variable holds something else already, nothing is written. */
export function writeEnv(file: string, values: Record<string, string>): string {
  const before = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const named = (line: string): string | undefined => /^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1];
  const taken = before.filter((line) => {
    const value = line
      .slice(line.indexOf('=') + 1)
      .trim()
      .replaceAll(/^['"]|['"]$/g, '');
    return named(line) !== undefined && Object.hasOwn(values, named(line) ?? '') && value !== '' && !OURS.test(value);
  });
  if (taken.length > 0) {
    const names = taken.map(named).join(', ');
    return `${file} was not written: it sets ${names} to something that the simulator has not made. Take that out first`;
  }
  const others = before.filter((line) => !Object.hasOwn(values, named(line) ?? ''));
  while (others.at(-1) === '') others.pop();
  const lines = [...others, ...Object.entries(values).map(([name, value]) => `${name}=${value}`), ''];
  writeFileSync(file, lines.join('\n'), { mode: 0o600 });
  return `written to ${file}: ${Object.keys(values).join(', ')}`;
}
