// Koa with pg-boss on PostgreSQL: a table that finds duplicates, and a job in the same transaction.
import Koa from 'koa';
import { Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { DATABASE_URL as connectionString, handle, PLACES, PORT, RETRY_MS, verified } from './common.mjs';

const pool = new Pool({ connectionString, max: 20 });
await pool.query('create table if not exists received (id text primary key, cursor bigint, body bytea not null)');
const boss = new PgBoss({ connectionString, max: 20 });
await boss.start();
await boss.createQueue('events', { retryLimit: 5, retryDelay: RETRY_MS / 1_000, heartbeatSeconds: 10 });
const perBatch = { batchSize: 100, burstWhenBatchFull: true, perJobResults: true };
await boss.work('events', { ...perBatch, pollingIntervalSeconds: 0.5, localConcurrency: PLACES / 8 }, async (jobs) =>
  jobs.map(({ id, data }) => {
    try {
      handle(data);
      return { id, status: 'completed' };
    } catch (error) {
      return { id, status: 'failed', output: { message: String(error) } };
    }
  }),
);
const app = new Koa();
app.use(async (ctx) => {
  const delivery = await verified(ctx.req);
  ctx.status = delivery ? 204 : 401;
  if (!delivery) return;
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rowCount } = await client.query({
      name: 'store',
      text: 'insert into received values ($1, $2, $3) on conflict do nothing',
      values: [delivery.id, delivery.cursor, delivery.body],
    });
    const db = { executeSql: (text, values) => client.query(text, values) };
    if (rowCount === 1) await boss.send('events', delivery.event, { db });
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
});
app.listen(PORT, '127.0.0.1');
