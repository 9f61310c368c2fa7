// Says that an event came. Small enough to delete: your own handlers stand beside it.
import { defineHandler } from '#kit';

export default defineHandler({
  on: '*',
  order: 'arrival',
  handle(event, ctx) {
    ctx.log.info({ type: event.type, origin: event.origin, lagMs: ctx.lagMs }, 'event handled');
  },
});
