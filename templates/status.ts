// Keeps the status of each message, which never goes backwards. Use it to show whether your messages were sent,
// delivered and read.
// The contract shows neither the fields of MessageStatusUpdated nor the values of `status`. Assumed: `message_id`, and
// a `status` from STEPS, in upper or lower case. Any other event becomes a dead letter that names the problem. Then
// adapt this file, or declare the fields in src/events.ts, and run `npx kit retry --state dead --handler <name>`.
// Lane: the session, because an update may name no conversation. Freshness: any age, because only the furthest step
// counts.
import { Dead, defineHandler } from '#kit';

/** From first to last. `failed` is final. */
const STEPS = ['pending', 'sent', 'delivered', 'read', 'failed'];

export default defineHandler({
  on: 'MessageStatusUpdated',
  lane: 'session',
  history: true,
  async setup(tx) {
    await tx.run(`create table if not exists status_messages (
      message_id text primary key, step bigint not null, status text not null)`);
  },
  async handle(event, ctx) {
    const { message_id, status } = event.data;
    if (typeof message_id !== 'string')
      throw new Dead('MessageStatusUpdated has no message_id: see the header of this file');
    const step = typeof status === 'string' ? STEPS.indexOf(status.toLowerCase()) : -1;
    if (step === -1) throw new Dead('its status is none of STEPS: see the header of this file');
    await ctx.complete(async (tx) => {
      await tx.run(
        `insert into status_messages values (?, ?, ?) on conflict (message_id) do update
         set step = excluded.step, status = excluded.status where excluded.step > status_messages.step`,
        ...[message_id, step, STEPS[step] ?? ''],
      );
    });
  },
});
