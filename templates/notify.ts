// Posts to Slack or Discord that a message has arrived. The notice names the event, and neither its writer nor its text: add
// what your channel may know.
// Lane: none, because notices need no order. Freshness: ten minutes, because later a person has seen the message.
// Needs: NOTIFY_URL, the address of an incoming webhook.
// Assumed: nothing about the service. Slack reads `text`, Discord reads `content`.
// A notice can come twice, if `run` dies after the channel has answered.
import { Dead, defineHandler, RetryAfter } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  lane: 'none',
  order: 'arrival',
  maxAgeMs: 600_000,
  onStale: 'skip',
  // Discord takes 30 notices a minute, Slack 60.
  rate: { perMinute: 30 },
  timeoutMs: 15_000,
  setup: () => void address(),
  async handle(event, ctx) {
    const words = `A message has arrived${event.data.is_group ? ' in a group' : ''}: npx kit explain ${event.key}`;
    const { body, ok, status, headers } = await fetch(address(), {
      method: 'POST',
      redirect: 'error',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text: words, content: words }),
      signal: ctx.signal,
    });
    await body?.cancel();
    if (ok) return;
    const seconds = Number(headers.get('retry-after')) || 60;
    if (status === 429) throw new RetryAfter(1_000 * Math.min(seconds, 3_600), 'too many notices');
    if (status >= 400 && status < 500) throw new Dead(`NOTIFY_URL refused the notice: ${status}`);
    throw new Error(`NOTIFY_URL answered ${status}`);
  },
});

/** The address is a secret. An error of fetch would quote a bad one; the error that is thrown here does not. */
function address(): string {
  const { NOTIFY_URL: url = '' } = process.env;
  if (URL.canParse(url) && /^https?:\/\/[^@]+$/.test(url)) return url;
  throw new Error('set NOTIFY_URL to the address of an incoming webhook of Slack or Discord');
}
