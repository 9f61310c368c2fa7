// Keeps the delivery status of each message, which never goes backwards.
// Use it to show whether your messages were sent, delivered and read.
// Lane: the session, because an update may name no conversation. Freshness: any age, because only the furthest step
// counts.
// Needs: nothing.
// Assumed: MessageStatusUpdated has a `message_id`, and a `status` from STEPS, in upper or lower case. The contract shows
// neither. Any other update is skipped, and the reason names the field: adapt this file, or declare the fields in
// src/events.ts. Then `npx kit rerun --handler <name> --from <time>` handles the skipped ones. Reruns change nothing else.
import { defineHandler, Skip } from '#kit';

/** From first to last. `failed` is final. */
const STEPS = ['pending', 'sent', 'delivered', 'read', 'failed'];

export default defineHandler({
  on: 'MessageStatusUpdated',
  lane: 'session',
  history: true,
  setup: [
    `create table delivery_status (
      message_id text primary key, step bigint not null, status text not null)`,
  ],
  async handle(event, ctx) {
    const { message_id, status } = event.data;
    if (typeof message_id !== 'string' || message_id === '')
      throw new Skip('no message_id: see Assumed in the header of this handler');
    const step = typeof status === 'string' ? STEPS.indexOf(status.toLowerCase()) : -1;
    if (step === -1) throw new Skip('no status from STEPS: see Assumed in the header of this handler');
    await ctx.complete(async (tx) => {
      await tx.run(
        `insert into delivery_status values (?, ?, ?) on conflict (message_id) do update
         set step = excluded.step, status = excluded.status where excluded.step > delivery_status.step`,
        ...[message_id, step, STEPS[step] ?? ''],
      );
    });
  },
});
