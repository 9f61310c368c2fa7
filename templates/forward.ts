// Hands each event to an HTTP endpoint of your own. Use it where other programs do the work: this one keeps order,
// retries, and signs. Set FORWARD_URL and FORWARD_SECRET. The endpoint can see an event twice (it answered, and we died
// before that was written down): it tells by the Idempotency-Key. It checks the signature, hex of HMAC-SHA256 with the
// secret over `<timestamp>.<body>`, before it reads the body.
// Lane: the conversation. Freshness: however old, because the endpoint wants all; it is told when it happened.
import { createHmac } from 'node:crypto';
import { Dead, defineHandler } from '#kit';

/** Not refusals but bad moments: 4xx after which the same request may do better. */
const AGAIN = new Set([408, 425, 429]);

export default defineHandler({
  on: '*',
  lane: 'conversation',
  timeoutMs: 15_000,
  async handle(event, ctx) {
    const { FORWARD_URL: url, FORWARD_SECRET: secret } = process.env;
    if (!url || !secret) throw new Error('set FORWARD_URL and FORWARD_SECRET');
    const body = JSON.stringify(event);
    const timestamp = String(Math.floor(Date.now() / 1000));
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'error',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': ctx.idempotencyKey,
        'x-timestamp': timestamp,
        'x-signature': createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex'),
      },
      body,
      signal: ctx.signal,
    });
    await response.body?.cancel();
    if (response.ok) return;
    const refused = response.status >= 400 && response.status < 500 && !AGAIN.has(response.status);
    // Repeating what was refused cannot help: it waits for a person. The rest is tried again.
    if (refused) throw new Dead(`the endpoint refused it: ${response.status}`);
    throw new Error(`the endpoint answered ${response.status}`);
  },
});
