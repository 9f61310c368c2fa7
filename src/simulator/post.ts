// One POST of the service (contract 6.3): follows no redirect, waits so long and no longer, and ignores what the answer
// says beyond its status.
import { Agent, request } from 'node:http';

/** The HTTP status, or why there was none. */
export type Answer = number | 'timeout' | 'unreachable';

const READ_AT_MOST = 16 * 1024;

export function createPost(url: string, timeoutMs: number) {
  const agent = new Agent({ keepAlive: true });

  function post(body: Buffer, headers: Record<string, string>): Promise<Answer> {
    const signal = AbortSignal.timeout(timeoutMs);
    return new Promise((resolve) => {
      const sent = request(url, {
        method: 'POST',
        agent,
        signal,
        headers: { ...headers, 'Content-Length': body.length },
      });
      sent.on('response', (response) => {
        resolve(response.statusCode ?? 'unreachable');
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > READ_AT_MOST) response.destroy();
        });
      });
      sent.on('error', () => resolve(signal.aborted ? 'timeout' : 'unreachable'));
      sent.end(body);
    });
  }

  return { post, close: () => agent.destroy() };
}
