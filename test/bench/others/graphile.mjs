// What a team would write instead of the kit on PostgreSQL: Koa, a table that finds duplicates, and graphile-worker with a
// queue for each conversation, which keeps their order and retries.
import { run } from 'graphile-worker';
import Koa from 'koa';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { Pool } from 'pg';

const { DATABASE_URL: connectionString, FOLDER, PORT, SECRET } = process.env;
const pool = new Pool({ connectionString, max: 20 });
await pool.query('create table received (id text primary key, cursor bigint, body bytea not null)');
// The bench reads here how many jobs have ended.
const seen = new Int32Array(1);
const file = openSync(`${FOLDER}/seen`, 'w+');
setInterval(() => writeSync(file, seen, 0, seen.byteLength, 0), 10);
await run({
  connectionString,
  taskList: { handle: () => void seen[0]++ },
  preset: { worker: { concurrentJobs: 32, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
});
// One statement, so that there is no event without its job.
const STORE = `with stored as (insert into received values ($1, $2, $3) on conflict do nothing returning id)
  select graphile_worker.add_job('handle', json_build_object('id', id), queue_name := $4) from stored`;
const app = new Koa();
app.use(async (ctx) => {
  const parts = [];
  for await (const part of ctx.req) parts.push(part);
  const body = Buffer.concat(parts);
  const timestamp = ctx.get('X-Svc-Timestamp');
  const expected = createHmac('sha256', SECRET).update(`${timestamp}.`).update(body).digest();
  const given = Buffer.from(ctx.get('X-Svc-Signature').slice('v1='.length), 'hex');
  ctx.status = 401;
  if (given.length !== expected.length || !timingSafeEqual(expected, given)) return;
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > 300) return;
  const { id, cursor, type, session_id: session, data } = JSON.parse(body.toString());
  await pool.query({ name: 'store', text: STORE, values: [id, cursor, body, `${session}/${data[type].from}`] });
  ctx.status = 204;
});
app.listen(Number(PORT), '127.0.0.1');
