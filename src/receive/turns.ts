// Bodies are read and hashed in turns. In one iteration of the event loop the system hands over one new connection, so
// long iterations keep deliveries waiting.
import type { IncomingMessage } from 'node:http';

/** Bytes that a body may send before it waits for its turn. Most deliveries are shorter. */
export const PART = 64 * 1024;
/** Milliseconds between two turns. Large bodies then take about a quarter of a core. */
const GAP_MS = 1;

/** The expected size of each body that waits. */
const waiting = new Map<IncomingMessage, number>();
let timer: NodeJS.Timeout | undefined;

/** Resumes the body that is expected to be the smallest: it needs the fewest turns. */
function next(): void {
  let first: IncomingMessage | undefined;
  let least = Infinity;
  for (const [request, length] of waiting) {
    if (request.socket.destroyed) waiting.delete(request);
    else if (!first || length < least) [first, least] = [request, length];
  }
  if (first) waiting.delete(first);
  first?.resume();
  timer = waiting.size > 0 ? setTimeout(next, GAP_MS) : undefined;
}

/** The bytes that a body is expected to have: as its sender announces, otherwise twice what has arrived. */
export function sizeOf({ headers }: IncomingMessage, arrived: number): number {
  return Number(headers['content-length'] ?? 2 * arrived);
}

/** Reads a body for those who listen to it. It pauses after each part until it has a turn. */
export function readInTurns(request: IncomingMessage): void {
  let bytes = 0;
  let all = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    all += chunk.length;
    if (bytes < PART) return;
    bytes = 0;
    request.pause();
    waiting.set(request, sizeOf(request, all));
    timer ??= setTimeout(next, GAP_MS);
  });
}

/** Reads a body and drops it, in turns. */
export function dropInTurns(request: IncomingMessage): void {
  readInTurns(request);
  request.on('data', free);
}

/** Frees the memory of a dropped part at once. In a crowd, garbage collection would come too late. */
export function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
