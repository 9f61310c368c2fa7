// Forwards each event to your own HTTP endpoint. Use it if another program does the work, and the kit should keep the
// order, retry and sign. Set FORWARD_URL and FORWARD_SECRET.
// The endpoint can get an event twice: if `run` ends after the endpoint's answer, the attempt is repeated. Both
// requests have the same Idempotency-Key. The endpoint must check the signature before it reads the body: X-Signature
// is the HMAC-SHA256 of `<X-Timestamp>.<body>` with the secret, in hex.
// Lane: the conversation. Freshness: any age, because the endpoint gets every event, with the time when it happened.
import { createHmac } from 'node:crypto';
import { Dead, defineHandler } from '#kit';

/** Temporary 4xx: the same request may succeed later. */
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
    // A retry cannot change a refusal, so a person must look at it. All other errors are retried.
    if (refused) throw new Dead(`the endpoint refused it: ${response.status}`);
    throw new Error(`the endpoint answered ${response.status}`);
  },
});
