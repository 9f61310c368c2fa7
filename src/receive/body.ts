// Reads a request's body byte for byte, because the signature covers the raw bytes, and koa-body would decode them.
// Bodies share a memory budget. When they exceed it, some are dropped.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createBudget, type Body } from './body-budget.ts';
import type { RefusalName } from './causes.ts';

/** Bytes. Bodies up to this size have a budget of their own, so that large ones never drop them. */
const SMALL = 64 * 1024;
const BUDGET = { small: 16 * 1024 * 1024, large: 64 * 1024 * 1024 };
/** Bytes that each chunk costs at least, because very small chunks take more memory than their bytes. */
const CHUNK = 512;
/** Bytes. Verifying and parsing a larger body blocks the event loop long enough to delay other answers. */
const PACED = 512 * 1024;

type BodyCause = Extract<RefusalName, `body_${string}`>;

export type BodyReader = ReturnType<typeof createBodyReader>;

export function createBodyReader(budget = BUDGET.large, monotonic = (): number => performance.now()) {
  const small = createBudget(BUDGET.small, monotonic);
  const large = createBudget(budget, monotonic);

  return {
    /**
     * The whole body, or the cause of its refusal: it is too long, it was dropped for the budget, or the sender left. Its
     * bytes are charged until `answer` closes.
     */
    read: (request: IncomingMessage, limit: number, answer: EventEmitter = request): Promise<Buffer | BodyCause> =>
      new Promise((resolve) => {
        const chunks: Buffer[] = [];
        const body: Body = { held: 0, since: monotonic(), drop: () => settle('body_dropped') };
        const onGone = (): void => settle('body_aborted');
        let bytes = 0;
        let charged = small;
        let settled = false;

        function onData(chunk: Buffer): void {
          if (settled) return;
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > limit) return settle('body_limit');
          if (bytes > SMALL && charged === small) {
            small.release(body);
            charged = large;
          }
          charged.charge(body, Math.max(bytes, CHUNK * chunks.length));
        }
        function onEnd(): void {
          settle(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
        }
        // The listeners stay, because an error without one would crash the process. What comes later is ignored.
        function settle(result: Buffer | BodyCause): void {
          if (settled) return;
          settled = true;
          chunks.length = 0;
          if (typeof result === 'string') charged.release(body);
          else charged.keep(body);
          resolve(result);
        }
        request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
        answer.once('close', () => charged.release(body));
      }),
  };
}

/**
 * At most one large body is verified per iteration of the event loop, so that small deliveries are answered in between.
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
