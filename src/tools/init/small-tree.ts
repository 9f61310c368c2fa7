// Writes the files of a small repository: those of the kit that are kept, and its own.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isKept, OWN_FILES } from './kept.ts';
import { smallKnip, smallLock, smallManifest, type Knip, type Lock, type Manifest } from './manifest.ts';
import { extract, type Source } from './source.ts';

export interface Kind {
  /** The name in package.json. */
  name: string;
  /** With simulator, demo and `npm run dev`. */
  tools: boolean;
}

/** Returns the folder in `work` that holds the tree. */
export function writeSmallTree(source: Source, { name, tools }: Kind, work: string): string {
  const tree = join(work, 'tree');
  const kept = source.paths.filter((path) => isKept(path, tools));
  extract([...kept, ...source.paths.filter((path) => path.startsWith(OWN_FILES))], work);
  // With tools the kit's own .vscode stays, which also debugs `npm run dev`.
  const filter = (path: string): boolean => !(tools && path.endsWith('.vscode'));
  cpSync(join(tree, OWN_FILES), tree, { recursive: true, filter });
  rmSync(join(tree, dirname(OWN_FILES)), { recursive: true });
  const manifest = rewrite<Manifest>(join(tree, 'package.json'), (kit) => smallManifest(kit, name, tools));
  rewrite<Lock>(join(tree, 'package-lock.json'), (kit) => smallLock(kit, manifest));
  rewrite<Knip, object>(join(tree, 'knip.json'), (kit) => smallKnip(kit, kept));
  const readme = join(tree, 'README.md');
  writeFileSync(readme, readFileSync(readme, 'utf8').replace(/^# .*/, `# ${name}`));
  return tree;
}

function rewrite<Content, Changed = Content>(file: string, change: (content: Content) => Changed): Changed {
  const changed = change(JSON.parse(readFileSync(file, 'utf8')) as Content);
  writeFileSync(file, `${JSON.stringify(changed, null, 2)}\n`);
  return changed;
}
