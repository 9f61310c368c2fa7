// Reads a request's body as it came, byte for byte, whatever its headers claim. Large bodies share a budget that is
// charged by what has arrived; when it is spent, the slowest of them is dropped, never the next delivery.
import type { IncomingMessage } from 'node:http';

/** Bodies up to this size are never charged. */
const SMALL = 64 * 1024;
const BUDGET = 64 * 1024 * 1024;

export class BodyError extends Error {
  readonly code: 'too_large' | 'dropped' | 'aborted';
  constructor(code: BodyError['code'], message: string) {
    super(message);
    this.name = 'BodyError';
    this.code = code;
  }
}

interface Reader {
  bytes: number;
  since: number;
  drop(): void;
}

export interface BodyReader {
  /** The whole body. Throws BodyError: above `limit`, dropped for the budget, or gone. */
  read(request: IncomingMessage, limit: number): Promise<Buffer>;
}

export function createBodyReader(budget = BUDGET, monotonic = (): number => performance.now()): BodyReader {
  const large = new Set<Reader>();

  function makeRoom(): void {
    let charged = 0;
    for (const { bytes } of large) charged += bytes;
    if (charged <= budget) return;
    const now = monotonic();
    const speed = ({ bytes, since }: Reader): number => bytes / Math.max(1, now - since);
    const slowest = [...large].reduce((a, b) => (speed(b) < speed(a) ? b : a));
    slowest.drop();
  }

  return {
    read: (request, limit) =>
      new Promise((resolve, reject) => {
        const chunks: Buffer[] = [];
        const reader: Reader = {
          bytes: 0,
          since: monotonic(),
          drop: () => fail('dropped', 'too many large bodies at once'),
        };

        function onData(chunk: Buffer): void {
          chunks.push(chunk);
          reader.bytes += chunk.length;
          if (reader.bytes > limit) return fail('too_large', `more than ${limit} bytes`);
          if (reader.bytes <= SMALL) return;
          large.add(reader);
          makeRoom();
        }
        function onEnd(): void {
          finish();
          resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
        }
        function onGone(): void {
          fail('aborted', 'the sender went away');
        }
        function fail(code: BodyError['code'], message: string): void {
          finish();
          chunks.length = 0;
          reject(new BodyError(code, message));
        }
        function finish(): void {
          large.delete(reader);
          request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
          // An error after this has nobody to answer to.
          request.on('error', () => {});
        }
        request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
      }),
  };
}
