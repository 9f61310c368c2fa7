// Sends an answer of the API, whole or as a transport fault: cut off, byte by byte, or too large.
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import type { Answer } from './faults.ts';

const DRIP_MS = 1_000;
const FLOOD_MIB = 300;

/** Resolves when the answer was sent or the connection is closed. `speed` divides the wait between two bytes. */
export async function transmit(response: ServerResponse, answer: Answer, speed: number): Promise<void> {
  const { status, headers = {}, body, manner } = answer;
  const gzip = manner === 'gzip' && { 'content-encoding': 'gzip' };
  response.writeHead(status, { 'content-type': 'application/json', ...headers, ...gzip });
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  try {
    if (manner === 'gzip') await pipeline(Readable.from(blanks()), createGzip(), response);
    else if (manner === 'flood') await pipeline(Readable.from(blanks()), response);
    else if (manner === 'drip') await pipeline(Readable.from(drip(text, DRIP_MS / speed)), response);
    else if (manner === 'cut') response.write(text.slice(0, text.length / 2), () => response.socket?.resetAndDestroy());
    else response.end(text);
  } catch {
    // The reader has closed the connection.
    response.destroy();
  }
}

function* blanks(): Generator<Buffer> {
  const block = Buffer.alloc(1024 * 1024, ' ');
  for (let i = 0; i < FLOOD_MIB; i++) yield block;
}

async function* drip(text: string, ms: number): AsyncGenerator<Buffer> {
  for (const byte of Buffer.from(text)) {
    yield Buffer.of(byte);
    await sleep(ms, undefined, { ref: false });
  }
}
