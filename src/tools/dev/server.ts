// The page of `npm run dev`: passes requests on to the kit's own page and API, with the token, and adds the view Send. Only
// this machine may use it.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe } from '../../base/errors.ts';
import { refusal } from '../../ops/access.ts';
import { freePort } from '../sandbox.ts';

const FIRST_PORT = 3010;
const NO_KIT = { error: 'the kit does not answer yet. If it does not start, the terminal of npm run dev says why' };
const FILES: Record<string, string> = { '/dev/send.js': 'text/javascript', '/dev/send.css': 'text/css' };

type Actions = Record<string, (asked: never) => unknown>;

/** Resolves with the page's address. An action is called by POST with JSON. The page shows its error. */
export async function startServer(opsUrl: string, token: string, actions: Actions): Promise<string> {
  const server = createServer((request, response) => {
    void respond(request, response).catch((error: unknown) => say(response, 400, { error: describe(error).message }));
  });

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '', method = '', headers } = request;
    const foreign = refusal({ all: undefined, read: undefined }, headers, 'read');
    if (foreign) return say(response, 403, { error: 'only this page, on this machine, may send requests' });
    const type = FILES[url];
    if (type) return void response.writeHead(200, { 'content-type': type }).end(fileOf(url));
    const body = method === 'POST' ? await text(request) : null;
    const action = Object.entries(actions).find(([name]) => url === `/dev/${name}`)?.[1];
    if (action && body !== null) return say(response, 200, (await action(JSON.parse(body) as never)) ?? {});
    // Headers that name this page, or hold another token, are not passed on.
    const onward = { authorization: `Bearer ${token}`, 'content-type': headers['content-type'] ?? '' };
    const answer = await fetch(`${opsUrl}${url}`, { method, body, headers: onward }).catch(() => null);
    if (!answer) return say(response, 502, NO_KIT);
    const { 'content-length': _, ...told } = Object.fromEntries(answer.headers);
    const sent = Buffer.from(await answer.arrayBuffer());
    // The page of operators starts with send.js here, instead of main.js.
    response.writeHead(answer.status, told);
    response.end(url === '/' ? sent.toString().replace('/page/main.js', '/dev/send.js') : sent);
  }

  const port = await freePort(FIRST_PORT);
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${port}`;
}

const fileOf = (url: string): Buffer => readFileSync(new URL(url.replace('/dev/', 'page/'), import.meta.url));

function say(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
