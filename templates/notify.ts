// Posts to Slack or Discord that a message has arrived.
// Use it to call a person to the inbox. The notice names the event, and neither its writer nor its text: add what your
// channel may know.
// Lane: none, because notices need no order. Freshness: ten minutes, because later a person has seen the message.
// Needs: NOTIFY_URL, the address of an incoming webhook.
// Assumed: nothing of the service. Slack reads `text`, Discord reads `content`.
// A notice can come twice, if `run` ends after the answer of Slack or Discord.
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
  setup: () => void addressOf(process.env['NOTIFY_URL']),
  async handle(event, ctx) {
    const words = `A message has arrived${event.data.is_group ? ' in a group' : ''}: npx kit explain ${event.key}`;
    const response = await fetch(addressOf(process.env['NOTIFY_URL']), {
      method: 'POST',
      redirect: 'error',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text: words, content: words }),
      signal: ctx.signal,
    });
    await response.body?.cancel();
    if (response.ok) return;
    const { status } = response;
    if (status === 429) throw new RetryAfter(waitOf(response), 'too many notices');
    if (status >= 400 && status < 500) throw new Dead(`NOTIFY_URL refused the notice: ${status}`);
    throw new Error(`NOTIFY_URL answered ${status}`);
  },
});

/** Throws without the address, because it is a secret. The errors of fetch would quote it. */
function addressOf(url = ''): string {
  if (URL.canParse(url) && /^https?:\/\/[^@]+$/.test(url)) return url;
  throw new Error('set NOTIFY_URL to the address of an incoming webhook of Slack or Discord');
}

/** Milliseconds, from the seconds in Retry-After: at most an hour, by default a minute. */
function waitOf({ headers }: Response): number {
  const seconds = Number(headers.get('retry-after'));
  return 1_000 * (seconds > 0 ? Math.min(seconds, 3_600) : 60);
}
