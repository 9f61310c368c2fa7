// Sends raw bytes over a kept connection, one request after another, and reads the statuses. So tests can send requests
// that no HTTP client would send.
import { connect, type Socket } from 'node:net';

export interface Wire {
  /**
   * Resolves to the status of the answer. `end`: closes the sending side after these bytes. Rejects if the connection
   * ends without an answer.
   */
  ask(request: Buffer, end?: boolean): Promise<number>;
  close(): void;
}

const HEAD = /^HTTP\/1\.1 ([2-5]\d\d)[^]*?\r\n\r\n/;
const TIMEOUT_MS = 10_000;

export function createWire(port: number): Wire {
  let kept: Socket | undefined;

  function ask(request: Buffer, end = false): Promise<number> {
    const socket = kept?.writable ? kept : connect({ port, host: '127.0.0.1', noDelay: true });
    kept = end ? undefined : socket;
    return new Promise((resolve, reject) => {
      let text = '';
      const timer = setTimeout(() => fail(`no answer within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
      function settle(): void {
        clearTimeout(timer);
        socket.removeAllListeners();
        // The request is over, so a later reset of the connection does not matter.
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
