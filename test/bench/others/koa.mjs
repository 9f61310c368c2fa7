// The barest receiver: Koa verifies and parses, stores nothing, and answers.
import Koa from 'koa';
import { handle, PORT, verified } from './common.mjs';

const app = new Koa();
app.use(async (ctx) => {
  const delivery = await verified(ctx.req);
  ctx.status = delivery ? 204 : 401;
  if (delivery) handle(delivery.event);
});
app.listen(PORT, '127.0.0.1');
