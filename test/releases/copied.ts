// A copy of the present kit with one more migration: the next release, as far as its schema goes.
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { open } from '../../src/store/open.ts';

export interface NextKit {
  root: string;
  /** The number of its newest migration. */
  schema: number;
  open: typeof open;
}

/** `edit`: further changes of files, by path: from a text to another. */
export async function copyKit(
  folder: string,
  kind: 'sqlite' | 'postgres',
  migration: string,
  edit: Record<string, [from: string, to: string]> = {},
): Promise<NextKit> {
  const root = join(folder, 'next-kit');
  mkdirSync(root);
  cpSync('src', join(root, 'src'), { recursive: true });
  cpSync('package.json', join(root, 'package.json'));
  symlinkSync(resolve('node_modules'), join(root, 'node_modules'));
  const migrations = join(root, 'src/store', kind, 'migrations');
  const schema = readdirSync(migrations).length + 1;
  writeFileSync(join(migrations, fileOf(schema)), migration);
  for (const [file, [from, to]] of Object.entries(edit)) {
    const text = readFileSync(join(root, file), 'utf8');
    if (!text.includes(from)) throw new Error(`${file} has no ${from}`);
    writeFileSync(join(root, file), text.replace(from, to));
  }
  const next = (await import(pathToFileURL(join(root, 'src/store/open.ts')).href)) as { open: typeof open };
  return { root, schema, open: next.open };
}

/** As if the next release had been reverted, and the one after it merged: returns the name of the migration that is missing. */
export function loseMigration({ root, schema }: NextKit, kind: 'sqlite' | 'postgres'): string {
  const at = join(root, 'src/store', kind, 'migrations');
  const [lost, later] = [fileOf(schema), fileOf(schema + 1)];
  renameSync(join(at, lost), join(at, later));
  return lost;
}

function fileOf(migration: number): string {
  return `${String(migration).padStart(3, '0')}.sql`;
}
