// What lies between the service and the kit on the strictest day: a road for deliveries, and a listener to calls.
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Fetch } from '../../src/service/exchange.ts';
import type { Cursor } from '../../src/wire/cursor.ts';

/** Passes calls on, and notes every refusal of the service. */
export function listenIn(happened: Set<string>, shown: Set<Cursor>): Fetch {
  function noteReplay(text: string): void {
    const page = JSON.parse(text) as { events: { cursor: Cursor }[]; has_more: boolean; reset_required: boolean };
    for (const { cursor } of page.events) shown.add(cursor);
    if (page.reset_required) happened.add('reset_required');
    if (page.events.length === 0 && page.has_more) happened.add('empty page');
  }

  async function overhear({ body }: Response): Promise<void> {
    let text = '';
    try {
      for await (const chunk of body ?? []) {
        text += Buffer.from(chunk).toString();
        for (const [, event, data = ''] of text.matchAll(/^event: (refresh|error|end)\ndata: (.*)$/gm))
          happened.add(event === 'end' ? 'stream end' : `stream ${event} ${refusalIn(data)}`);
      }
    } catch {
      // The kit has closed the stream.
    }
  }

  return async (url, init) => {
    const response = await globalThis.fetch(url, init);
    const isStream = url.includes('/events');
    if (response.ok && isStream) void overhear(response.clone());
    else {
      const text = await response.clone().text();
      if (!response.ok) happened.add(`${isStream ? 'stream ' : ''}${response.status} ${refusalIn(text)}`);
      else if (url.endsWith('/ReplayEvents')) noteReplay(text);
    }
    return response;
  };
}

function refusalIn(text: string): string {
  const found = (field: string): string | undefined => new RegExp(`"${field}":"(\\w+)"`).exec(text)?.[1];
  return found('reason') ?? found('code') ?? 'without envelope';
}

type Failure = 302 | 500 | 'silent' | 'cut';

/** The road between service and receiver. It passes requests on as they are, except the next ones, which fail. */
export async function openRoad(port: number, note: (what: string) => void) {
  const failures: Failure[] = [];

  function pass(incoming: IncomingMessage, response: ServerResponse): void {
    const { method, url, headers } = incoming;
    if (String(headers['x-svc-signature']).includes(',')) note('both signatures');
    const onward = httpRequest({ port, host: '127.0.0.1', method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    incoming.pipe(onward);
  }

  const server = createServer((incoming, response) => {
    const failure = failures.shift();
    if (failure === undefined) return pass(incoming, response);
    if (failure === 'cut') return response.destroy();
    incoming.resume();
    if (failure !== 'silent') response.writeHead(failure, { location: '/elsewhere' }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    next: (...more: Failure[]) => void failures.push(...more),
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
