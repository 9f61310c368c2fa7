// The HTTP server around the app: its time limits, its connections behind a load balancer, and its drain at a stop.
import { once } from 'node:events';
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import type Koa from 'koa';
import { ConfigError } from '../config.ts';
import { dropInTurns } from './turns.ts';

const SWEEP_MS = 50;
/**
 * In a drain, requests that are still arriving get this long. After it, all connections are closed as soon as no
 * delivery waits for its commit.
 */
const GRACE_MS = 500;
const LINGER_MS = 1_000;
/** More connections than these do not linger, because each may hold a part of a body. */
const LINGERING = 100;
/** Connections that the system keeps until they are accepted. If a crowd fills them, a delivery waits for seconds. */
const BACKLOG = 4_096;

/** Proxies add some headers. More would let strangers take memory: small ones take ten times their bytes. */
const MOST_HEADERS = 100;
/** Requests of a connection whose answers are not sent yet. The service sends one after the other. */
const PIPELINED = 128;

const ENDED = new Set(['HPE_CLOSED_CONNECTION', 'HPE_INVALID_EOF_STATE']);
const CLOSE = 'Connection: close\r\n';

/** A connection whose last answer is a refusal. Later requests on it are not processed (RFC 9112, section 9.6). */
const closing = new WeakSet<Socket>();
const lingering = new Set<Socket>();
const unread = new WeakMap<Socket, number>();
/** The answer to the last request of a connection. */
const newest = new WeakMap<Socket, ServerResponse>();

/** `onUnreadable` is called for each request that is no readable HTTP, or whose headers are too long. */
export function createReceiveServer(app: Koa, onUnreadable: (status: number) => void = () => {}): Server {
  const callback = app.callback();
  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    if (closing.has(req.socket)) dropInTurns(req);
    else if (isFlooded(req.socket, res)) req.socket.destroy();
    else void callback(req, res);
  };
  const server = createServer(
    {
      // The service waits 10 s for an answer (contract 6.3), so slower requests are cut off. Node checks every second.
      headersTimeout: 8_000,
      requestTimeout: 12_000,
      connectionsCheckingInterval: 1_000,
      // Load balancers keep an idle connection for up to 60 s. If this time were shorter, they would reuse a connection
      // that the server has just closed.
      keepAliveTimeout: 75_000,
    },
    handle,
  );
  // Node must not send "100 Continue" by itself: the route sends it once the headers have passed.
  server.on('checkContinue', handle);
  server.on('checkExpectation', (req, res: ServerResponse) => {
    closeAfterAnswer(req, res);
    res.writeHead(417).end();
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400;
    // The rest of a refused body, and a request that its sender broke off, are no further refusal.
    if (error.code?.startsWith('HPE_') && !ENDED.has(error.code)) onUnreadable(status);
    // An answer that has begun must not be followed by another one.
    const answer = newest.get(socket);
    const begun = answer?.headersSent && !answer.writableFinished;
    if (socket.writable && !begun) socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${CLOSE}\r\n`);
    socket.destroy(error);
  });
  server.maxHeadersCount = MOST_HEADERS;
  // A sender that has sent all may close its side, and still gets its answer.
  Object.assign(server, { httpAllowHalfOpen: true });
  return server;
}

/** Counts the answers that a connection has not taken yet. True: there are too many. */
function isFlooded(socket: Socket, response: ServerResponse): boolean {
  const count = (unread.get(socket) ?? 0) + 1;
  unread.set(socket, count);
  newest.set(socket, response);
  response.once('close', () => unread.set(socket, (unread.get(socket) ?? 1) - 1));
  return count > PIPELINED;
}

/**
 * Call it if the answer is sent before the whole body was read. Closing a socket with unread bytes resets the
 * connection, and the sender would not see the status. So the rest of the body is read and dropped for a moment before
 * the socket closes.
 */
export function closeAfterAnswer(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (closing.has(socket)) return;
  closing.add(socket);
  response.setHeader('Connection', 'close');
  socket.destroySoon = () => {
    socket.end();
    if (request.listenerCount('data') === 0) dropInTurns(request);
    request.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    lingering.add(socket);
    socket
      .once('end', () => socket.destroy())
      .once('close', () => {
        clearTimeout(timer);
        lingering.delete(socket);
      });
    const [oldest] = lingering;
    if (lingering.size <= LINGERING || !oldest) return;
    lingering.delete(oldest);
    oldest.destroy();
  };
}

/** Throws ConfigError if the port cannot be opened. `name` is the variable that sets the port. */
export async function listen(server: NetServer, name: string, port: number, host: string): Promise<void> {
  server.listen({ port, host, backlog: BACKLOG });
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${name}: cannot listen on ${host}:${port} (${code}): choose a free one`]);
  }
}

/**
 * Stops listening, and resolves when the last connection is closed. Deliveries in flight are answered. `committing`
 * returns the number of deliveries that wait for their commit.
 */
export async function drainServer(server: Server, committing: () => number): Promise<void> {
  const began = performance.now();
  // Idle connections are closed here, because a proxy would keep the connection of an answered delivery open.
  const sweep = setInterval(() => {
    server.closeIdleConnections();
    if (performance.now() - began > GRACE_MS && committing() === 0) server.closeAllConnections();
  }, SWEEP_MS);
  server.close();
  await once(server, 'close');
  clearInterval(sweep);
}
