// Koa with BullMQ on a Redis that syncs each write. The event's id is the job's, so a duplicate adds no job.
import { Queue, Worker } from 'bullmq';
import Koa from 'koa';
import { handle, PLACES, PORT, REDIS_PORT, RETRY_MS, verified } from './common.mjs';

const connection = { host: '127.0.0.1', port: Number(REDIS_PORT), maxRetriesPerRequest: null };
const queue = new Queue('events', { connection });
const kept = { removeOnComplete: { age: 86_400 }, attempts: 5, backoff: { type: 'fixed', delay: RETRY_MS } };
const worker = new Worker('events', async ({ data }) => handle(data), { connection, concurrency: PLACES });
worker.on('error', console.error);
const app = new Koa();
app.use(async (ctx) => {
  const delivery = await verified(ctx.req);
  ctx.status = delivery ? 204 : 401;
  if (delivery) await queue.add('event', delivery.event, { jobId: delivery.id, ...kept });
});
app.listen(PORT, '127.0.0.1');
