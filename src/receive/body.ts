// Reads a body byte for byte, because the signature covers the raw bytes (koa-body would decode and parse them
// before they are verified). Large bodies share a memory budget: without room, at most 64 KiB are read.
import type { IncomingMessage } from 'node:http';
import { createRoom, SMALL } from './room.ts';

/** A large body that makes no progress for this long is refused, because other bodies wait for its room. */
const STALL_MS = 2_000;

export type BodyCause = 'body_limit' | 'body_aborted' | 'body_stalled' | 'no_room';

/** `release` gives the room back: call it when the bytes are no longer used. */
export type Body = { bytes: Buffer; release: () => void };

export function createBodyReader() {
  const takeRoom = createRoom();

  /** Resolves to the whole body, or to the cause of its refusal. */
  async function read(request: IncomingMessage, limit: number): Promise<Body | BodyCause> {
    const declared = request.headers['content-length'];
    if (Number(declared ?? 0) > SMALL) return readLarge(request, limit, Number(declared), []);
    const parts: Buffer[] = [];
    const end = await collect(request, Math.min(limit, SMALL), parts);
    if (end === 'end') return { bytes: whole(parts), release: () => {} };
    if (end !== 'body_limit' || limit <= SMALL) return end;
    // A chunked body does not say its length, so it takes as much room as the limit.
    return readLarge(request, limit, limit, parts);
  }

  async function readLarge(
    request: IncomingMessage,
    limit: number,
    size: number,
    parts: Buffer[],
  ): Promise<Body | BodyCause> {
    const release = await takeRoom(Math.min(size, limit));
    if (!release) return 'no_room';
    const end = request.destroyed ? 'body_aborted' : await collect(request, limit, parts, STALL_MS);
    if (end === 'end') return { bytes: whole(parts), release };
    release();
    return end;
  }

  return read;
}

const whole = (parts: Buffer[]): Buffer => (parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts));

/** Adds to `parts` until the body ends. Past the limit it pauses the request, and keeps the last part too. */
function collect(
  request: IncomingMessage,
  limit: number,
  parts: Buffer[],
  stallMs = 0,
): Promise<'end' | Exclude<BodyCause, 'no_room'>> {
  return new Promise((resolve) => {
    let bytes = parts.reduce((sum, part) => sum + part.length, 0);
    const timer = stallMs > 0 ? setTimeout(() => over('body_stalled'), stallMs) : undefined;
    function over(how: 'end' | Exclude<BodyCause, 'no_room'>): void {
      clearTimeout(timer);
      request.off('data', onData).off('end', onEnd).off('close', onGone);
      if (how !== 'end') request.pause();
      resolve(how);
    }
    const onEnd = (): void => over('end');
    const onGone = (): void => over('body_aborted');
    function onData(part: Buffer): void {
      parts.push(part);
      bytes += part.length;
      timer?.refresh();
      if (bytes > limit) over('body_limit');
    }
    request.on('data', onData).on('end', onEnd).on('close', onGone);
    // An error without a listener would end the process. After an error comes `close`.
    if (request.listenerCount('error') === 0) request.on('error', () => {});
    request.resume();
  });
}
