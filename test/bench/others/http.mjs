// Node's own server with one synced row for each delivery, and no queue: the handler runs after the answer.
import Database from 'better-sqlite3';
import { createServer } from 'node:http';
import { FOLDER, handle, PORT, verified } from './common.mjs';

const db = new Database(`${FOLDER}/events.db`);
db.pragma('journal_mode = wal');
db.pragma('synchronous = full');
db.exec('create table if not exists received (id text primary key, body blob not null)');
const insert = db.prepare('insert into received values (?, ?) on conflict do nothing');
async function answer(req, res) {
  const delivery = await verified(req);
  const isNew = delivery && insert.run(delivery.id, delivery.body).changes === 1;
  res.writeHead(delivery ? 204 : 401).end();
  if (isNew) handle(delivery.event);
}

createServer((req, res) => void answer(req, res)).listen(PORT, '127.0.0.1');
