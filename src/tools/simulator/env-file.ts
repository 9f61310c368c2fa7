// Writes variables into .env. What a person has set there stays: only the lines below the mark are the simulator's.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

const MARK = '# Of the simulated service; npm run service -- --env writes these lines again:';

/** Returns what it did, in words. If a person has set one of the variables, nothing is written. */
export function writeEnv(file: string, values: Record<string, string>): string {
  const isOne = (line: string | undefined): boolean => nameIn(line ?? '') in values;
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split(/\r?\n/) : [];
  const mark = lines.indexOf(MARK);
  if (mark >= 0) {
    let end = mark + 1;
    while (isOne(lines[end])) end++;
    lines.splice(mark, end - mark);
  }
  const taken = lines.filter((line) => isOne(line) && !/=\s*$/.test(line));
  if (taken.length > 0)
    return `${file} was not written: it sets ${taken.map(nameIn).join(', ')}. Take that out, so that the simulator's is used`;
  const others = lines.filter((line) => !isOne(line));
  while (others.at(-1) === '') others.pop();
  const own = Object.entries(values).map(([name, value]) => `${name}=${value}`);
  // A file beside it, because a full disk must not cost the old one.
  writeFileSync(`${file}.new`, [...others, MARK, ...own, ''].join('\n'), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return `written to ${file}: ${Object.keys(values).join(', ')}`;
}

function nameIn(line: string): string {
  return /^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1] ?? '';
}
