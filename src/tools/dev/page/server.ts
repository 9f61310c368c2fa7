// The page of `npm run dev`, on this machine alone. It shows the events, and sends, repeats and tests them. The page is
// drawn by page.js from the JSON that these routes answer.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { koaBody } from 'koa-body';
import { atMostEvery } from '../../../base/loop.ts';
import { freePort } from '../../sandbox.ts';
import type { Actions } from './actions.ts';

const FILES = { '/': ['index.html', 'html'], '/page.js': ['page.js', 'js'], '/page.css': ['page.css', 'css'] } as const;
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/** Milliseconds between two signs of change: the page asks for all of its content again. */
const CHANGES_MS = 150;
const NAMES = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

export interface DevPage {
  url: string;
  /** Tells open pages that something has changed. */
  changed(): void;
}

/** `port` is taken if it is free, otherwise another one. */
export async function createDevPage(port: number, actions: Actions): Promise<DevPage> {
  const open = new Set<PassThrough>();
  const app = new Koa();
  app.on('error', () => {});
  app.use(guard);
  app.use(koaBody({ text: false, urlencoded: false, multipart: false, jsonLimit: '12mb' }));
  app.use(routesOf(actions, open).routes());
  const handle = app.callback();
  const server = createServer((request, response) => void handle(request, response));
  server.listen(await freePort(port), '127.0.0.1');
  await once(server, 'listening');
  const { port: found } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${found}`,
    changed: atMostEvery(CHANGES_MS, () => open.forEach((page) => page.write('data: changed\n\n'))),
  };
}

/** Other sites must not reach this page: it sends events, and writes files that are run. */
async function guard(ctx: Context, next: () => Promise<void>): Promise<void> {
  ctx.set({ 'Content-Security-Policy': CSP, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
  const origin = ctx.get('origin');
  const reads = ctx.method === 'GET' || ctx.method === 'HEAD';
  const own = origin === `http://${ctx.host}` || (reads && origin === '');
  if (!NAMES.test(ctx.host) || !own) {
    ctx.status = 403;
    ctx.body = { error: 'only the page itself, on this machine, may ask' };
    return;
  }
  try {
    await next();
  } catch (error) {
    ctx.status = 400;
    ctx.body = { error: error instanceof Error ? error.message : String(error) };
  }
}

function routesOf(actions: Actions, open: Set<PassThrough>): Router {
  const router = new Router();
  for (const [path, [file, type]] of Object.entries(FILES))
    router.get(path, (ctx) => {
      ctx.type = type;
      ctx.body = readFileSync(new URL(file, import.meta.url), 'utf8');
    });
  router.get('/api/changes', (ctx) => {
    const stream = new PassThrough();
    open.add(stream);
    stream.once('close', () => open.delete(stream));
    ctx.type = 'text/event-stream';
    ctx.body = stream;
    stream.write('data: changed\n\n');
  });
  router.get('/api/state', async (ctx) => {
    const { key } = ctx.query;
    ctx.body = await actions.state(typeof key === 'string' ? key : null);
  });
  for (const [name, act] of Object.entries(actions.changes))
    router.post(`/api/${name}`, async (ctx) => {
      ctx.body = await act((ctx.request.body ?? {}) as Record<string, unknown>);
    });
  return router;
}
