// One POST of the service (contract 6.3). It connects to the checked address, with 5 s for the connection and 10 s for
// the answer. It follows no redirect and uses only the status of the answer.
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';

/** The HTTP status, or the reason why no answer came. */
export type Answer = number | 'connect timeout' | 'timeout' | 'unreachable' | 'certificate' | 'address refused';

export interface PostOptions {
  connectMs?: number;
  answerMs?: number;
  /** The only certificate authority to accept, in PEM. Default: Node's list. */
  ca?: string;
}

export interface Post {
  send(to: { url: URL; address: string }, body: Buffer, headers: Record<string, string>): Promise<Answer>;
  close(): void;
}

const READ_AT_MOST = 16 * 1024;
/** The most connections to a receiver. Other deliveries queue. Their time limits start when they get a connection. */
const CONNECTIONS = 64;

/** Contract 6.3. */
export const LIMITS_MS = { connectMs: 5_000, answerMs: 10_000 };

export function createPost(options: PostOptions = {}): Post {
  const { connectMs, answerMs, ca } = { ...LIMITS_MS, ...options };
  const plain = new HttpAgent({ keepAlive: true, maxSockets: CONNECTIONS });
  const secure = new HttpsAgent({ keepAlive: true, maxSockets: CONNECTIONS, ...(ca && { ca }) });

  function send({ url, address }: { url: URL; address: string }, body: Buffer, headers: Record<string, string>) {
    const { protocol, hostname, host, port, pathname, search } = url;
    const to = { host: address, port, path: pathname + search, method: 'POST' };
    const all = { ...headers, Host: host, 'Content-Length': body.length };
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const sent =
      protocol === 'https:'
        ? httpsRequest({
            ...to,
            agent: secure,
            headers: all,
            servername: isIP(address) && hostname === address ? '' : hostname.replace(/^\[.*\]$/, ''),
          })
        : httpRequest({ ...to, agent: plain, headers: all });
    const timers: NodeJS.Timeout[] = [];
    const limit = (ms: number, answer: Answer): NodeJS.Timeout => {
      const timer = setTimeout(() => {
        resolve(answer);
        sent.destroy();
      }, ms);
      timers.push(timer);
      return timer;
    };

    sent.on('socket', (socket) => {
      limit(answerMs, 'timeout');
      if (!socket.connecting) return;
      const connecting = limit(connectMs, 'connect timeout');
      socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', () => clearTimeout(connecting));
    });
    sent.on('response', (response) => {
      resolve(response.statusCode ?? 'unreachable');
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > READ_AT_MOST) response.destroy();
      });
      response.on('error', () => response.destroy());
    });
    sent.on('error', (error: NodeJS.ErrnoException) => resolve(isOfCertificate(error) ? 'certificate' : 'unreachable'));
    sent.on('close', () => timers.forEach(clearTimeout));
    sent.end(body);
    return promise;
  }

  return {
    send,
    close() {
      plain.destroy();
      secure.destroy();
    },
  };
}

function isOfCertificate({ code = '' }: NodeJS.ErrnoException): boolean {
  return /CERT|SIGNATURE|ISSUER|ALTNAME/.test(code);
}
