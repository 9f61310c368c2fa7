// A bound on the open connections. Each costs memory and a file descriptor, and strangers can open thousands. Limits by
// client belong to the proxy, because behind it all have the same address.
import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';

/** More connections than deliveries need, and few enough that their requests fit the memory of a small machine. */
const MOST = 1_000;

/** The default of MAX_CONNECTIONS, from the number of files that the system lets this process open. */
export function defaultConnections(limits = ownLimits()): number {
  const descriptors = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? 2 * MOST);
  // The other half is for the store, the children, and connections that are accepted before others are closed.
  return Math.min(MOST, descriptors >> 1);
}

function ownLimits(): string {
  return process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

/**
 * Closes connections while there are more than `most`: those that have been without a request for the longest, then those
 * whose request began first. A delivery that waits for its commit is never cut off. Returns whether connections were
 * closed since the last call.
 */
export function boundConnections(server: Server, most: number): () => boolean {
  const open = new Set<Socket>();
  const idle = new Set<Socket>();
  /** The newest request of each connection that has one. */
  const busy = new Map<Socket, Exchange>();
  let full = false;
  let trimming = false;

  server.on('connection', (socket) => {
    open.add(socket);
    collectSooner(open.size > most / 4);
    idle.add(socket);
    socket.once('close', () => [open, idle, busy].forEach((all) => all.delete(socket)));
    if (open.size <= most || trimming) return;
    trimming = true;
    // Many connections may be accepted in one turn of the event loop. What they have sent is read in the next.
    setImmediate(() => setImmediate(trim));
  });
  for (const event of ['request', 'checkContinue']) server.prependListener(event, begin);

  function trim(): void {
    trimming = false;
    for (let excess = open.size - most; excess > 0; excess--) {
      full = true;
      const [idlest] = idle;
      // A quarter is left to those who have just connected, however many have a request.
      const victim = idle.size > Math.max(1, most / 4) ? idlest : (firstToLose(busy) ?? idlest);
      if (!victim) return;
      for (const all of [open, idle, busy]) all.delete(victim);
      victim.destroy();
    }
  }

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
    collectSooner(open.size > most / 4);
    return was;
  };
}

let sooner = false;

/**
 * In a crowd, connections come and go by the thousand. By default V8 collects their garbage when the heap has grown to a
 * multiple of what is in use. In a crowd it collects when the heap has grown by a fifth, which costs speed.
 */
function collectSooner(crowd: boolean): void {
  if (crowd === sooner) return;
  sooner = crowd;
  setFlagsFromString(`--heap-growing-percent=${crowd ? 20 : 0}`);
}

/** The first whose request has not arrived, or whose answer is written but not read. */
function firstToLose(busy: Map<Socket, Exchange>): Socket | undefined {
  for (const [socket, { request, response }] of busy) if (!request.complete || response.writableEnded) return socket;
  return undefined;
}
