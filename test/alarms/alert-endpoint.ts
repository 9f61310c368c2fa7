// A real HTTP endpoint as ALERT_URL.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface AlertEndpoint {
  url: string;
  /** The texts of the posts, in order. */
  posts: string[];
  close: () => void;
}

export async function listenForAlerts(answer = (res: ServerResponse): void => void res.end()): Promise<AlertEndpoint> {
  const posts: string[] = [];
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (chunk: Buffer) => (body += chunk.toString()));
    req.on('end', () => {
      posts.push((JSON.parse(body) as { text: string }).text);
      answer(res);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    posts,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
