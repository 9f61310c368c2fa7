// Logs each event of the service. Delete this file when you have handlers of your own.
import { defineHandler } from '#kit';

export default defineHandler({
  on: '*',
  order: 'arrival',
  handle(event, ctx) {
    ctx.log.info({ type: event.type, origin: event.origin, lagMs: ctx.lagMs }, 'event handled');
  },
});
