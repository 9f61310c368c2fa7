// Koa with graphile-worker on PostgreSQL: a table that finds duplicates, and a queue for each conversation, which keeps
// their order and retries.
import { run } from 'graphile-worker';
import Koa from 'koa';
import { Pool } from 'pg';
import { DATABASE_URL as connectionString, handle, PLACES, PORT, verified } from './common.mjs';

const pool = new Pool({ connectionString, max: 20 });
await pool.query('create table if not exists received (id text primary key, cursor bigint, body bytea not null)');
const find = async (id) =>
  (await pool.query({ name: 'find', text: 'select body from received where id = $1', values: [id] })).rows[0];
await run({
  connectionString,
  taskList: { handle: async ({ id }) => handle(JSON.parse((await find(id)).body.toString())) },
  preset: {
    worker: { concurrentJobs: PLACES, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
  },
});
// One statement, so that there is no event without its job.
const STORE = `with stored as (insert into received values ($1, $2, $3) on conflict do nothing returning id)
  select graphile_worker.add_job('handle', json_build_object('id', id), queue_name := $4) from stored`;
const app = new Koa();
app.use(async (ctx) => {
  const delivery = await verified(ctx.req);
  ctx.status = delivery ? 204 : 401;
  if (!delivery) return;
  const { id, cursor, body, lane } = delivery;
  await pool.query({ name: 'store', text: STORE, values: [id, cursor, body, lane] });
});
app.listen(PORT, '127.0.0.1');
