// Bodies of a size, and a reader whose work tests can watch.
import type { BodyReader } from '../../src/receive/body.ts';
import { bodyOf, message } from './harness.ts';

export const MB = 1024 * 1024;

/** A readable event of exactly this many bytes. */
export function sized(bytes: number, cursor = '1'): Buffer {
  const rest = bodyOf({ cursor, data: { MessageReceived: message({ body: '' }) } }).length;
  return bodyOf({ cursor, data: { MessageReceived: message({ body: 'x'.repeat(bytes - rest) }) } });
}

export function chunk(bytes: Uint8Array, extension = ''): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}${extension}\r\n`), bytes, Buffer.from('\r\n')]);
}

export const LAST_CHUNK = '0\r\n\r\n';
export const chunked: [string, string] = ['Transfer-Encoding', 'chunked'];

/** The real reader. It also counts the bytes that reached it, and the bodies that are being read. */
export function watched(reader: BodyReader): BodyReader & { arrived(): number; reading(): number } {
  let arrived = 0;
  let reading = 0;
  return {
    arrived: () => arrived,
    reading: () => reading,
    async read(request, ...more) {
      reading++;
      request.on('data', (part: Buffer) => void (arrived += part.length));
      try {
        return await reader.read(request, ...more);
      } finally {
        reading--;
      }
    },
  };
}
