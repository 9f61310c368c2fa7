// Forwards each event to your own HTTP endpoint, signed: another program does the work, and the kit orders and retries.
// Lane: the conversation. Freshness: never too old, because the event says when it happened.
// Needs: FORWARD_URL and FORWARD_SECRET.
// Assumed: nothing about the service.
// X-Signature is the HMAC-SHA256 of `<X-Timestamp>.<body>` with the secret, in hex. The endpoint must check it before
// it parses the body. It can get an event twice, with the same Idempotency-Key, if `run` dies after the answer.
// The kit retries after no answer, 5xx, 408 and 425, and after 429 when its Retry-After is over. Any other 4xx is a
// dead letter.
import { createHmac } from 'node:crypto';
import { Dead, defineHandler, RetryAfter } from '#kit';

export default defineHandler({
  on: '*',
  timeoutMs: 15_000,
  setup: () => void settings(),
  async handle(event, ctx) {
    const { url, secret } = settings();
    const body = JSON.stringify(event);
    const timestamp = String(Math.floor(Date.now() / 1_000));
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
    const { ok, status, headers } = response;
    if (ok) return;
    if (status === 429) {
      const seconds = Number(headers.get('retry-after')) || 60;
      throw new RetryAfter(1_000 * Math.min(seconds, 3_600), 'the endpoint answered 429');
    }
    const isRefusal = status >= 400 && status < 500 && ![408, 425].includes(status);
    if (isRefusal) throw new Dead(`the endpoint refused it: ${status}`);
    throw new Error(`the endpoint answered ${status}`);
  },
});

/** Its error does not quote the values. An error of fetch would quote the address, with any password in it. */
function settings(): { url: string; secret: string } {
  const { FORWARD_URL: url = '', FORWARD_SECRET: secret = '' } = process.env;
  if (secret !== '' && URL.canParse(url) && /^https?:\/\/[^@]+$/.test(url)) return { url, secret };
  throw new Error('set FORWARD_URL, an http or https address without user and password, and FORWARD_SECRET');
}
