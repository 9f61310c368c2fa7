// A bound on the open connections. Each costs memory and a file descriptor, and strangers can open thousands. Limits by
// client belong to the proxy, because behind it all have the same address.
import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** More connections than deliveries need, and few enough that their requests fit the memory of a small machine. */
const MOST = 4_000;
/** File descriptors for the store, the children and the probes. */
const OTHERS = 256;

/** The default of MAX_CONNECTIONS, from the number of files that the system lets this process open. */
export function defaultConnections(limits = ownLimits()): number {
  const descriptors = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity);
  return Math.min(MOST, Math.max(descriptors - OTHERS, descriptors >> 1));
}

function ownLimits(): string {
  return process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

/**
 * Closes a connection for each new one above the bound: the one that has been without a request for the longest, else
 * the one whose request began first. A delivery that waits for its commit is never cut off. Returns whether connections
 * were closed since the last call.
 */
export function boundConnections(server: Server, most: number): () => boolean {
  const open = new Set<Socket>();
  const idle = new Set<Socket>();
  /** The newest request of each connection that has one. */
  const busy = new Map<Socket, Exchange>();
  let full = false;

  server.on('connection', (socket) => {
    open.add(socket);
    idle.add(socket);
    socket.once('close', () => [open, idle, busy].forEach((all) => all.delete(socket)));
    if (open.size <= most) return;
    full = true;
    const [idlest] = idle;
    const victim = idlest === socket ? (firstToLose(busy) ?? socket) : idlest;
    victim?.destroy();
  });
  for (const event of ['request', 'checkContinue']) server.prependListener(event, begin);

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const exchange = { request, response };
    idle.delete(socket);
    busy.delete(socket);
    busy.set(socket, exchange);
    response.once('close', () => {
      if (busy.get(socket) !== exchange) return;
      busy.delete(socket);
      if (open.has(socket)) idle.add(socket);
    });
  }

  return () => {
    const was = full;
    full = false;
    return was;
  };
}

/** The first whose request has not arrived, or whose answer is written but not read. */
function firstToLose(busy: Map<Socket, Exchange>): Socket | undefined {
  for (const [socket, { request, response }] of busy) if (!request.complete || response.writableEnded) return socket;
  return undefined;
}
