// Forwards each event to your own HTTP endpoint, signed.
// Use it if another program does the work, and the kit should keep the order and retry.
// Lane: the conversation. Freshness: any age, because the endpoint gets every event, with the time when it happened.
// Needs: FORWARD_URL and FORWARD_SECRET.
// Assumed: nothing of the service.
// The endpoint can get an event twice: if `run` ends after the endpoint's answer, the attempt is repeated. Both
// requests have the same Idempotency-Key. The endpoint must check the signature before it reads the body: X-Signature
// is the HMAC-SHA256 of `<X-Timestamp>.<body>` with the secret, in hex.
// Temporary errors are retried: no answer, 5xx, 408, 425, and 429 after its Retry-After. Any other 4xx is a dead letter.
import { createHmac } from 'node:crypto';
import { Dead, defineHandler, RetryAfter } from '#kit';

export default defineHandler({
  on: '*',
  lane: 'conversation',
  timeoutMs: 15_000,
  setup: () => void settings(),
  async handle(event, ctx) {
    const { url, secret } = settings();
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
    const { ok, status } = response;
    if (ok) return;
    if (status === 429) throw new RetryAfter(waitOf(response), 'the endpoint answered 429');
    // A retry cannot change a refusal, so a person must look at it.
    if (status >= 400 && status < 500 && ![408, 425].includes(status))
      throw new Dead(`the endpoint refused it: ${status}`);
    throw new Error(`the endpoint answered ${status}`);
  },
});

/** Throws without the values. The errors of fetch would quote the address, and a password in it. */
function settings(): { url: string; secret: string } {
  const { FORWARD_URL: url = '', FORWARD_SECRET: secret = '' } = process.env;
  if (secret !== '' && URL.canParse(url) && /^https?:\/\/[^@]+$/.test(url)) return { url, secret };
  throw new Error('set FORWARD_URL, an http or https address without user and password, and FORWARD_SECRET');
}

/** Milliseconds, from the seconds in Retry-After: at most an hour, by default a minute. */
function waitOf({ headers }: Response): number {
  const seconds = Number(headers.get('retry-after'));
  return 1_000 * (seconds > 0 ? Math.min(seconds, 3_600) : 60);
}
