// Reads a request's body byte for byte, because the signature covers the raw bytes, and koa-body would decode them.
// Bodies share a memory budget. When they exceed it, some are dropped.
import type { IncomingMessage } from 'node:http';
import { createBudget, type Body } from './body-budget.ts';
import type { RefusalName } from './causes.ts';
import { free, PART, readInTurns, sizeOf } from './turns.ts';

/** Bytes. Bodies up to this size have a budget of their own, so that large ones never drop them. */
const SMALL = 64 * 1024;
const BUDGET = { small: 16 * 1024 * 1024, large: 32 * 1024 * 1024 };
/** Bytes that each chunk costs at least, because very small chunks take more memory than their bytes. */
const CHUNK = 512;

type BodyCause = Extract<RefusalName, `body_${string}`>;

export type BodyReader = ReturnType<typeof createBodyReader>;

export function createBodyReader(budget = BUDGET.large, monotonic = (): number => performance.now()) {
  const small = createBudget(BUDGET.small, monotonic);
  const large = createBudget(budget, monotonic);

  return {
    /**
     * The parts of the body, or the cause of its refusal: it is too long, it was dropped for the budget, or the sender
     * left. Its bytes are charged until `handled` settles. `onPart` is called with each part as it arrives.
     */
    read: (
      request: IncomingMessage,
      limit: number,
      handled: Promise<unknown> = Promise.resolve(),
      onPart?: (part: Buffer) => void,
    ): Promise<Buffer[] | BodyCause> =>
      new Promise((resolve) => {
        let parts: Buffer[] = [];
        const drop = (): void => settle('body_dropped');
        const body: Body = { held: 0, size: sizeOf(request, 0), since: monotonic(), drop };
        const onEnd = (): void => settle(parts);
        const onGone = (): void => settle('body_aborted');
        let bytes = 0;
        let charged = small;
        let settled = false;

        function onData(part: Buffer): void {
          if (settled) return free(part);
          parts.push(part);
          bytes += part.length;
          if (bytes > limit) return settle('body_limit');
          if (bytes > SMALL && charged === small) {
            small.release(body);
            charged = large;
          }
          onPart?.(part);
          body.size = Math.min(limit, sizeOf(request, bytes));
          // While a large body waits for its turn, the stream holds one more part of it.
          const next = charged === large ? Math.min(PART, body.size - bytes) : 0;
          charged.charge(body, Math.max(bytes + next, CHUNK * parts.length));
        }
        // The listeners stay, because an error without one would crash the process. What comes later is ignored.
        function settle(result: Buffer[] | BodyCause): void {
          if (settled) return;
          settled = true;
          if (typeof result === 'string') {
            parts.forEach(free);
            charged.release(body);
          } else {
            charged.keep(body);
            void handled.finally(() => charged.release(body));
          }
          parts = [];
          resolve(result);
        }
        readInTurns(request);
        request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
      }),
  };
}
