// The ceiling: Koa and its router, reading, verifying and parsing each delivery, and keeping nothing.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Router } from '@koa/router';
import Koa from 'koa';

const secret = process.env['WEBHOOK_SECRET'] ?? '';
const router = new Router();
router.post('/webhooks', async (ctx) => {
  const body = await read(ctx.req);
  const { 'x-svc-timestamp': timestamp, 'x-svc-signature': signature } = ctx.req.headers;
  const mac = createHmac('sha256', secret)
    .update(`${String(timestamp)}.`)
    .update(body)
    .digest();
  const given = Buffer.from(String(signature).slice(3), 'hex');
  if (given.length !== mac.length || !timingSafeEqual(given, mac)) {
    ctx.status = 401;
    return;
  }
  JSON.parse(body.toString());
  ctx.status = 204;
});
const app = new Koa();
app.use(router.routes());
app.listen(Number(process.env['PORT']), '127.0.0.1');

function read(request: AsyncIterable<Buffer> & NodeJS.EventEmitter): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    request.on('error', reject);
  });
}
