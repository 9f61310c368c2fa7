// Reads a request's body byte for byte, because the signature covers the raw bytes, and koa-body would decode them.
// Large bodies share a memory budget, which counts the bytes that have arrived. When they exceed it, the large body
// that arrives most slowly is dropped, so that other deliveries get through.
import type { IncomingMessage } from 'node:http';
import type { RefusalName } from './causes.ts';

/** Bytes. Bodies up to this size are not charged to the budget. */
const SMALL = 64 * 1024;
const BUDGET = 64 * 1024 * 1024;
/** Bytes. Verifying and parsing a larger body blocks the event loop long enough to delay other answers. */
const PACED = 512 * 1024;

interface Reader {
  bytes: number;
  since: number;
  drop(): void;
}

type BodyCause = Extract<RefusalName, `body_${string}`>;

export type BodyReader = ReturnType<typeof createBodyReader>;

export function createBodyReader(budget = BUDGET, monotonic = (): number => performance.now()) {
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
    /** The whole body, or the cause of its refusal: it is too long, it was dropped for the budget, or the sender left. */
    read: (request: IncomingMessage, limit: number): Promise<Buffer | BodyCause> =>
      new Promise((resolve) => {
        const chunks: Buffer[] = [];
        const reader: Reader = { bytes: 0, since: monotonic(), drop: () => settle('body_dropped') };
        const onGone = (): void => settle('body_aborted');
        let settled = false;

        function onData(chunk: Buffer): void {
          if (settled) return;
          chunks.push(chunk);
          reader.bytes += chunk.length;
          if (reader.bytes > limit) return settle('body_limit');
          if (reader.bytes <= SMALL) return;
          large.add(reader);
          makeRoom();
        }
        function onEnd(): void {
          settle(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
        }
        // The listeners stay, because an error without one would crash the process. What comes later is ignored.
        function settle(result: Buffer | BodyCause): void {
          settled = true;
          chunks.length = 0;
          large.delete(reader);
          resolve(result);
        }
        request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
      }),
  };
}

/**
 * Verifies at most one large body per iteration of the event loop, so that small deliveries are answered in between.
 * The returned function returns undefined for a small body, which need not wait.
 */
export function createPacer(): (bytes: number) => Promise<void> | undefined {
  let last = Promise.resolve();
  return (bytes) => {
    if (bytes <= PACED) return undefined;
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    return last;
  };
}
