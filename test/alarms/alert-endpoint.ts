// A real HTTP endpoint as ALERT_URL.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createCompose, type Post } from '../../src/alarms/post.ts';
import { RULES } from '../../src/alarms/rules/index.ts';

/** Composes posts as a kit with the default addresses does. */
export const COMPOSE = createCompose(
  { OPS_ORIGIN: undefined, OPS_HOST: '127.0.0.1', OPS_PORT: 3001, storePath: '/data/events.db' },
  RULES,
  1,
);

export interface AlertEndpoint {
  url: string;
  /** The texts of the posts, in order. */
  posts: string[];
  /** The posts themselves. */
  bodies: Post[];
  close: () => void;
}

export async function listenForAlerts(answer = (res: ServerResponse): void => void res.end()): Promise<AlertEndpoint> {
  const posts: string[] = [];
  const bodies: Post[] = [];
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (chunk: Buffer) => (body += chunk.toString()));
    req.on('end', () => {
      const post = JSON.parse(body) as Post;
      bodies.push(post);
      posts.push(post.text);
      answer(res);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    posts,
    bodies,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
