// A table with one row for each event id. It uses a WAL, and every commit is synced, as in the kit.
import Database from 'better-sqlite3';

export interface Rows {
  add(event: { id: string }, body: Buffer): void;
}

export function createRows(): Rows {
  const db = new Database(process.env['DATABASE'] ?? ':memory:');
  db.pragma('journal_mode = wal');
  db.pragma('synchronous = full');
  db.exec('create table events (id text primary key, body blob not null)');
  const insert = db.prepare('insert into events values (?, ?) on conflict (id) do nothing');
  return { add: ({ id }, body) => void insert.run(id, body) };
}
