// Shared by the servers `koa` and `rows`: reads the body of a request, and checks its signature.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

const secret = process.env['WEBHOOK_SECRET'] ?? '';

export function read(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    request.on('error', reject);
  });
}

export function isSigned({ headers }: IncomingMessage, body: Buffer): boolean {
  const mac = createHmac('sha256', secret)
    .update(`${String(headers['x-svc-timestamp'])}.`)
    .update(body)
    .digest();
  const given = Buffer.from(String(headers['x-svc-signature']).slice(3), 'hex');
  return given.length === mac.length && timingSafeEqual(given, mac);
}
