// The demo's handler. It records each event in the transaction that completes the task, so that the demo can count how
// often each event was handled.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  async setup(tx) {
    const n = tx.dialect === 'sqlite' ? 'integer primary key' : 'bigint generated always as identity primary key';
    await tx.run(`create table if not exists demo_handled (n ${n}, key text, cursor bigint, lane text, late int)`);
  },
  async handle(event, ctx) {
    await ctx.complete(async (tx) => {
      const lane = `${event.sessionId}/${event.data.from}`;
      await tx.run(
        'insert into demo_handled (key, cursor, lane, late) values (?, ?, ?, ?)',
        event.key,
        event.cursor,
        lane,
        ctx.late ? 1 : 0,
      );
    });
  },
});
