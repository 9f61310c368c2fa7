// The folders of the releases, and what each expects.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Expected } from './expected.ts';

export const RELEASES = import.meta.dirname;

/** Throws if there is none, because a test of no release would pass. */
export function releases(): string[] {
  const found = readdirSync(RELEASES).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
  if (found.length === 0) throw new Error('test/releases has no folder of a release: npm run release writes one');
  return found;
}

export function expectedOf(release: string, file: 'events.json' | 'postgres.json'): Expected {
  return JSON.parse(readFileSync(join(RELEASES, release, file), 'utf8')) as Expected;
}
