// The HTTP server around the app: evicts slow clients, suits a load balancer, and drains.
import { createServer, type Server } from 'node:http';
import type Koa from 'koa';

const SWEEP_MS = 50;
/** For what is still on its way to us; after that, only what waits to be committed keeps its connection. */
const GRACE_MS = 500;

export function createReceiveServer(app: Koa): Server {
  const handle = app.callback();
  const server = createServer(
    {
      // A slow client is gone within 15 s: checked every second, and no delivery may take longer than the service waits.
      headersTimeout: 8_000,
      requestTimeout: 12_000,
      connectionsCheckingInterval: 1_000,
      // Above the idle time of load balancers (60 s), or they would reuse a connection that we just closed.
      keepAliveTimeout: 75_000,
    },
    (req, res) => void handle(req, res),
  );
  // The route sends "100 Continue" itself, once the headers have passed.
  server.on('checkContinue', (req, res) => void handle(req, res));
  return server;
}

/** Answers nothing: to find out whether a port can be had. */
export function createProbe(): Server {
  return createServer();
}

/**
 * Stops listening, lets deliveries in flight be answered, and resolves when the last connection is closed. `committing`
 * is how many wait for the store; whoever else keeps a connection open is not waited for.
 */
export function drainServer(server: Server, committing: () => number): Promise<void> {
  return new Promise((resolve) => {
    const began = performance.now();
    // What was in flight leaves its connection idle, and a proxy would keep it.
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
