// Says that a message came. Use it to see deliveries arrive, or as the beginning of a handler of your own.
// Lane: the conversation. Freshness: what is older than ten minutes is skipped.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  lane: 'conversation',
  maxAgeMs: 600_000,
  onStale: 'skip',
  handle(event, ctx) {
    ctx.log.info({ messageId: event.data.message_id, late: ctx.late }, 'message received');
  },
});
