// An upper bound for the kit's speed: Koa and its router read, verify and parse with the kit's code, but store nothing.
import { Router } from '@koa/router';
import Koa from 'koa';
import { createBodyReader } from '../../../src/receive/body.ts';
import { createVerifier } from '../../../src/receive/verify.ts';
import { readDelivery } from '../../../src/wire/event.ts';

const secrets = [process.env['WEBHOOK_SECRET'] ?? ''];
const verifier = createVerifier({ secrets, prefix: 'X-Svc-', toleranceSeconds: 300 });
const bodies = createBodyReader();
const router = new Router();
router.post('/webhooks', async (ctx) => {
  ctx.status = 401;
  const claimed = verifier.headers(ctx.req, Date.now());
  if (typeof claimed === 'string') return;
  const check = verifier.body(claimed);
  const parts = await bodies.read(ctx.req, 10_000_000, undefined, check.update);
  if (typeof parts === 'string' || typeof check.end(Date.now()) === 'string') return;
  ctx.status = 'event' in readDelivery(Buffer.concat(parts)) ? 204 : 400;
});
new Koa().use(router.routes()).listen(Number(process.env['PORT']), '127.0.0.1');
