// A balancer in front of the instances. Each delivery goes to the next instance in turn. If the connection is refused or
// breaks, the delivery goes to another instance at once.
import { once } from 'node:events';
import { createServer, request, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Balancer {
  url: string;
  /** The number of deliveries that each instance answered. */
  answered: number[];
  /** The ids of events whose delivery broke off: the instance may have stored them or not. */
  brokenOff: Set<string>;
}

/** `targets`: the addresses of the webhook, one for each instance. */
export async function createBalancer(targets: string[]): Promise<Balancer> {
  const answered = targets.map(() => 0);
  const brokenOff = new Set<string>();
  let turn = 0;

  async function pass(headers: IncomingHttpHeaders, body: Buffer): Promise<number> {
    const first = turn++;
    for (let tries = 0; tries < targets.length; tries++) {
      const at = (first + tries) % targets.length;
      try {
        const status = await send(targets[at] ?? '', headers, body);
        answered[at] = (answered[at] ?? 0) + 1;
        return status;
      } catch (error) {
        const isRefused = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED';
        if (!isRefused) brokenOff.add((JSON.parse(body.toString()) as { id: string }).id);
      }
    }
    return 502;
  }

  const server = createServer((incoming, response) => {
    void buffer(incoming)
      .then((body) => pass(incoming.headers, body))
      .then((status) => response.writeHead(status).end())
      // The service has closed the connection.
      .catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/webhooks`, answered, brokenOff };
}

/** Resolves to the HTTP status. */
async function send(target: string, headers: IncomingHttpHeaders, body: Buffer): Promise<number> {
  const sent = request(target, { method: 'POST', headers });
  const answer = new Promise<number>((resolve, reject) => {
    sent.on('response', (response) => {
      response.on('error', reject).resume();
      resolve(response.statusCode ?? 502);
    });
    sent.on('error', reject);
  });
  sent.end(body);
  return answer;
}
