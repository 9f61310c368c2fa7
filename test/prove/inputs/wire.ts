// A kept connection that sends requests byte by byte as they are given, one after another, and reads the statuses; what
// no HTTP client would send included.
import { connect, type Socket } from 'node:net';

export interface Wire {
  /** The status of the answer; `end`: nothing more follows these bytes. Rejects where the connection ends without one. */
  ask(request: Buffer, end?: boolean): Promise<number>;
  close(): void;
}

const HEAD = /^HTTP\/1\.1 ([2-5]\d\d)[^]*?\r\n\r\n/;
const PATIENCE_MS = 10_000;

export function createWire(port: number): Wire {
  let kept: Socket | undefined;

  function ask(request: Buffer, end = false): Promise<number> {
    const socket = kept?.writable ? kept : connect({ port, host: '127.0.0.1', noDelay: true });
    kept = end ? undefined : socket;
    return new Promise((resolve, reject) => {
      let text = '';
      const timer = setTimeout(() => fail(`no answer within ${PATIENCE_MS} ms`), PATIENCE_MS);
      function settle(): void {
        clearTimeout(timer);
        socket.removeAllListeners();
        // Reset while it lingers: nobody is left to be told.
        socket.on('error', () => {});
      }
      function fail(why: string): void {
        settle();
        drop();
        reject(new Error(`${why}${text && `, after ${JSON.stringify(text)}`}`));
      }
      function drop(): void {
        if (kept === socket) kept = undefined;
        socket.destroy();
      }
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        const status = Number(HEAD.exec(text)?.[1]);
        if (!status) return;
        settle();
        if (end || /^connection: close\r$/im.test(text)) drop();
        resolve(status);
      });
      socket.on('close', () => fail('the connection was closed'));
      socket.on('error', () => {});
      socket.write(request);
      if (end) socket.end();
    });
  }

  return { ask, close: () => void kept?.destroy() };
}
