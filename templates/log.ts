// Logs that a message arrived. Use it to see deliveries arrive, or as the start of your own handler.
// Lane: the conversation. Freshness: ten minutes; older messages are skipped.
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
