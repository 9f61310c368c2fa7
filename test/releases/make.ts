// `npm run release`: writes test/releases/<version>, what the release of this version leaves for its successors: the store
// of a small story as an SQLite file and as SQL for PostgreSQL, what must be found in each, and the public names.
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { installServer } from '../postgres/install.ts';
import { startServer } from '../postgres/server.ts';
import { dump } from './dump.ts';
import { publicNames } from './names.ts';
import { tellStory } from './story.ts';

/** A file in git should stay small. */
const LARGEST = 400 * 1024;
/** Tables that may be empty, and why. */
const MAY_BE_EMPTY: Record<string, string> = {
  id_filters: 'a full segment of 32,768 ids makes the first row, of 1 MiB',
  processes: 'a kit that was stopped leaves none, and a copy of a store must not name processes',
};

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const folder = join(import.meta.dirname, version);
const work = mkdtempSync(join(tmpdir(), 'kit-release-'));
/** A run that fails leaves the folder of the release as it was. */
const made = join(work, 'made');
try {
  mkdirSync(made);
  await makeFile();
  await makeText();
  const names = await publicNames(join(made, 'events.db'));
  writeFileSync(join(made, 'names.txt'), `${names.join('\n')}\n`);
  cpSync(made, folder, { recursive: true });
  console.log(`${folder} is written: commit it`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

async function makeFile(): Promise<void> {
  const path = join(work, 'events.db');
  const expected = await tellStory(`sqlite:${path}`, join(work, 'backups'));
  if (existsSync(`${path}-wal`)) throw new Error('the store was closed, but has a log');
  const db = new Database(path, { readonly: true });
  const tables = db
    .prepare<[], string>(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`)
    .pluck()
    .all();
  const sizes = tables.map((name): [string, number] => [
    name,
    Number(db.prepare(`select count(*) from ${name}`).pluck().get()),
  ]);
  db.close();
  requireRows(Object.fromEntries(sizes));
  const { size } = statSync(path);
  if (size > LARGEST) throw new Error(`the store has ${size} bytes: tell a shorter story, the limit is ${LARGEST}`);
  copyFileSync(path, join(made, 'events.db'));
  // The kit lets only its own user read it, and git does not keep that.
  chmodSync(join(made, 'events.db'), 0o644);
  write('events.json', { ...expected, rows: Object.fromEntries(sizes) });
}

async function makeText(): Promise<void> {
  await installServer('see npm');
  const server = await startServer();
  try {
    const expected = await tellStory(server.url, undefined);
    const { text, rows } = await dump(server.url);
    requireRows(rows);
    writeFileSync(join(made, 'postgres.sql'), text);
    write('postgres.json', { ...expected, rows });
  } finally {
    await server.stop();
  }
}

function requireRows(rows: Record<string, number>): void {
  const empty = Object.keys(rows).filter((name) => rows[name] === 0 && !(name.replace(/^\w+\./, '') in MAY_BE_EMPTY));
  if (empty.length > 0)
    throw new Error(`the story leaves no row in ${empty.join()}: tell it so in test/releases/story.ts that it does`);
}

function write(name: string, content: object): void {
  writeFileSync(join(made, name), `${JSON.stringify(content, undefined, 1)}\n`);
}
