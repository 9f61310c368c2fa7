// An upper bound for any Koa server: it reads, verifies and parses with little code, and stores nothing.
import { Router } from '@koa/router';
import Koa from 'koa';
import { isSigned, read } from './read.ts';

const router = new Router();
router.post('/webhooks', async (ctx) => {
  const body = await read(ctx.req);
  if (!isSigned(ctx.req, body)) {
    ctx.status = 401;
    return;
  }
  JSON.parse(body.toString());
  ctx.status = 204;
});
new Koa().use(router.routes()).listen(Number(process.env['PORT']), '127.0.0.1');
