// The demo's handler. It writes a row in the transaction that completes the task, so each row is one completion.
import { defineHandler } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  setup: [
    'create table demo_handled (n integer primary key, key text, cursor integer, lane text, late integer, pid integer)',
  ],
  async handle(event, ctx) {
    const lane = `${event.sessionId}/${event.data.from}`;
    await ctx.complete(async (tx) => {
      const sql = 'insert into demo_handled (key, cursor, lane, late, pid) values (?, cast(? as integer), ?, ?, ?)';
      await tx.run(sql, event.key, event.cursor, lane, Number(ctx.late), process.pid);
    });
  },
});
