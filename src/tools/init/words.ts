// What `npm run init` prints: what was written, what was left out, and what to do next.
import { relative } from 'node:path';
import { git, tryGit } from './git.ts';
import { isKept, OWN_FILES } from './kept.ts';
import type { Written } from './repository.ts';
import { ROOT, type Source } from './source.ts';

export function wordsFor(source: Source, written: Written): string {
  const { folder, commit, before } = written;
  return before ? wordsForUpdate(source, folder, commit, before) : wordsForNew(source, written);
}

function wordsForNew(source: Source, { folder, commit, tools }: Written): string {
  return [
    `kit ${source.version} is in ${folder}: ${sizeOf(folder, commit)}; this clone has ${sizeOf(ROOT, source.commit)}`,
    `left out: ${leftOut(source, tools)}`,
    '',
    'Next:',
    `  cd ${quoted(relative('', folder))}`,
    '  npm ci && npm test',
    '  npx kit new          lists templates of handlers',
    'Its README.md says how to start, deploy and update it.',
  ].join('\n');
}

function wordsForUpdate(
  source: Source,
  folder: string,
  commit: string,
  before: { id: string; version: string },
): string {
  const changes = git(folder, ['diff', '--shortstat', before.id, commit]).trim() || 'no file changed';
  const branch = tryGit(folder, ['symbolic-ref', '--quiet', '--short', 'HEAD']);
  return [
    `kit ${source.version} is on the branch kit of ${folder}, which has ${before.version}: ${changes}`,
    '',
    'Next:',
    `  cd ${quoted(relative('', folder))}`,
    ...(branch === undefined ? ['  git switch main      no branch is checked out'] : []),
    '  git merge kit        a merge commit, no squash: the next update looks for it',
    '  npm ci && npm test',
    'If there are conflicts: src/processes/README.md, Update.',
  ].join('\n');
}

function sizeOf(repository: string, commit: string): string {
  const empty = git(repository, ['hash-object', '-t', 'tree', '--stdin']);
  const [files = '', lines = ''] = git(repository, ['diff', '--shortstat', empty, commit]).match(/\d+/g) ?? [];
  return `${Number(files).toLocaleString('en')} files, ${Number(lines).toLocaleString('en')} lines`;
}

function leftOut({ paths }: Source, tools: boolean): string {
  const own = paths.filter((path) => path.startsWith(OWN_FILES)).map((path) => path.slice(OWN_FILES.length));
  const counts = new Map<string, number>();
  for (const path of paths) {
    if (isKept(path, tools) || own.includes(path)) continue;
    const place = path
      .split('/')
      .slice(0, path.startsWith('src/') ? 3 : 1)
      .join('/');
    counts.set(place, (counts.get(place) ?? 0) + 1);
  }
  return [...counts].map(([place, n]) => (n === 1 ? place : `${place} (${n} files)`)).join(', ');
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
