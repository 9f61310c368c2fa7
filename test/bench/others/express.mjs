// A receiver by hand: express and one table, which finds duplicates and holds what is not done yet. What has failed is
// tried again each second, and at a start.
import Database from 'better-sqlite3';
import express from 'express';
import { FOLDER, handle, PORT, RETRY_MS, verified } from './common.mjs';

const db = new Database(`${FOLDER}/events.db`);
db.pragma('journal_mode = wal');
db.pragma('synchronous = full');
db.exec(`create table if not exists received (id text primary key, body text not null, done int not null default 0);
  create index if not exists open on received (done) where done = 0`);
const insert = db.prepare('insert into received (id, body) values (?, ?) on conflict do nothing');
const open = db.prepare('select id, body from received where done = 0').raw();
const end = db.prepare('update received set done = 1 where id = ?');

function work(id, event) {
  try {
    handle(event);
    end.run(id);
  } catch {
    // The row is still open.
  }
}

function retry() {
  for (const [id, body] of open.all()) work(id, JSON.parse(body));
}

retry();
setInterval(retry, RETRY_MS);
const app = express();
app.post('/webhooks', async (req, res) => {
  const delivery = await verified(req);
  const isNew = delivery && insert.run(delivery.id, delivery.body.toString()).changes === 1;
  res.status(delivery ? 204 : 401).end();
  if (isNew) setImmediate(work, delivery.id, delivery.event);
});
app.listen(PORT, '127.0.0.1');
