// A receiver for the simulator's deliveries: a real HTTP server that answers as scripted and records its requests.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { onTestFinished, vi } from 'vitest';

export interface Got {
  path: string | undefined;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The position of the request, from 1. */
  number: number;
}

export interface Endpoint {
  url: string;
  got: Got[];
  /** The highest number of simultaneous requests. */
  most: () => number;
}

export async function createEndpoint(answer: (got: Got, response: ServerResponse) => void): Promise<Endpoint> {
  const got: Got[] = [];
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, ++open);
    response.once('close', () => open--);
    void request.toArray().then((chunks: Buffer[]) => {
      const { url: path, headers } = request;
      const one = { path, headers, body: Buffer.concat(chunks), number: got.length + 1 };
      got.push(one);
      return answer(one, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`, got, most: () => most };
}

/** Answers with these statuses in turn, then always with the last. */
export function inTurn(...statuses: number[]): (got: Got, response: ServerResponse) => void {
  return ({ number }, response) =>
    void response.writeHead(statuses[Math.min(number, statuses.length) - 1] ?? 204).end();
}

/** Polls until the assertions hold. The limit allows for a busy machine. */
export function until(holds: () => void): Promise<void> {
  return vi.waitFor(holds, 15_000);
}
