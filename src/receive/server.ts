// The public HTTP server: its limits of connections and time, and its drain. If you need other limits, use a proxy.
import { once } from 'node:events';
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import { ConfigError } from '../config.ts';

const LIMITS = {
  // The service waits 10 s for an answer (contract 6.3), so slower requests are cut off.
  headersTimeout: 8_000,
  requestTimeout: 12_000,
  connectionsCheckingInterval: 1_000,
  // Longer than load balancers keep an idle connection (60 s). Otherwise they would reuse one that was just closed.
  keepAliveTimeout: 75_000,
};
const CONNECTIONS = 1_000;
const HEADERS = 100;
/** How many connections the system keeps until they are accepted. */
const BACKLOG = 4_096;
/** After a refusal the rest of the request is read and dropped for this long, so that its sender sees the answer. */
const LINGER_MS = 1_000;
const SWEEP_MS = 50;

type Handle = (request: IncomingMessage, response: ServerResponse) => unknown;

/** `onUnreadable`: called for each request that is not valid HTTP. */
export function createReceiveServer(handle: Handle, onUnreadable: () => void): Server {
  const server = createServer(LIMITS, (request, response) => void handle(request, response));
  // Node must not send "100 Continue" by itself: the route sends it, once it has checked the headers.
  server.on('checkContinue', handle);
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const { code } = error;
    const status = code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : code === 'HPE_HEADER_OVERFLOW' ? 431 : 400;
    if (code?.startsWith('HPE_') && code !== 'HPE_INVALID_EOF_STATE') onUnreadable();
    const latest = answering.get(socket);
    const isBegun = latest?.headersSent === true && !latest.writableFinished;
    if (socket.writable && !isBegun)
      socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`);
    socket.destroy(error);
  });
  server.on('request', (request, response) => answering.set(request.socket, response));
  server.maxHeadersCount = HEADERS;
  server.maxConnections = CONNECTIONS;
  // A sender that closes its side of the connection after the request still gets its answer.
  return Object.assign(server, { httpAllowHalfOpen: true });
}

/** The latest answer on each connection. If it has begun, the answer to a broken request must not be mixed into it. */
const answering = new WeakMap<Socket, ServerResponse>();

/** Call it if the answer is sent before the whole request was read: closing at once would reset the connection. */
export function closeAfter(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('Connection', 'close');
  response.once('finish', () => {
    const { socket } = request;
    request.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
  });
}

/** Throws ConfigError if the port cannot be opened. `name` is the variable that sets it. */
export async function listen(server: NetServer, name: string, port: number, host: string): Promise<void> {
  server.listen({ port, host, backlog: BACKLOG });
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${name}: cannot listen on ${host}:${port} (${code}): choose another port or host`]);
  }
}

/** Stops listening. Resolves when every request that had begun is answered and every connection closed. */
export async function drainServer(server: Server): Promise<void> {
  // A proxy keeps a connection open after the answer, so idle connections are closed here.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  server.close();
  await once(server, 'close');
  clearInterval(sweep);
}
