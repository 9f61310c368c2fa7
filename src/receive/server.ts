// The HTTP server around the app. It evicts slow clients, suits load balancers, and drains.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Server as NetServer } from 'node:net';
import type Koa from 'koa';
import { ConfigError } from '../config.ts';

const SWEEP_MS = 50;
/**
 * Requests that are still arriving get this long. After it, only deliveries that wait for their commit keep a
 * connection.
 */
const GRACE_MS = 500;
const LINGER_MS = 1_000;

export function createReceiveServer(app: Koa): Server {
  const handle = app.callback();
  const server = createServer(
    {
      // The service waits 10 s for an answer (contract 6.3), so slower requests are cut off. Checked every second.
      headersTimeout: 8_000,
      requestTimeout: 12_000,
      connectionsCheckingInterval: 1_000,
      // Longer than load balancers idle (60 s). Otherwise they would reuse a connection that the server has just
      // closed.
      keepAliveTimeout: 75_000,
    },
    (req, res) => void handle(req, res),
  );
  // Node must not send "100 Continue" by itself: the route sends it once the headers have passed.
  server.on('checkContinue', (req, res) => void handle(req, res));
  return server;
}

/**
 * For an answer before the whole body is read. Closing a socket with unread bytes resets it, and the sender would see
 * a broken connection instead of the status. The rest of the body is therefore dropped for a moment before the socket
 * closes.
 */
export function lingerOnClose(request: IncomingMessage): void {
  const { socket } = request;
  socket.destroySoon = () => {
    socket.end();
    request.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('end', () => socket.destroy()).once('close', () => clearTimeout(timer));
  };
}

/** Throws ConfigError if the port cannot be opened. `name` is the port's variable. */
export async function listen(server: NetServer, name: string, port: number, host: string): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${name}: cannot listen on ${host}:${port} (${code}): choose a free one`]);
  }
}

/**
 * Stops listening, and resolves when the last connection is closed. Deliveries in flight are answered. `committing`
 * counts those that wait for the store; other connections are soon closed.
 */
export function drainServer(server: Server, committing: () => number): Promise<void> {
  return new Promise((resolve) => {
    const began = performance.now();
    // An answered delivery leaves its connection idle, and a proxy would keep that connection open.
    const sweep = setInterval(() => {
      server.closeIdleConnections();
      if (performance.now() - began > GRACE_MS && committing() === 0) server.closeAllConnections();
    }, SWEEP_MS);
    server.close(() => {
      clearInterval(sweep);
      resolve();
    });
  });
}
