// Erases what events hold. Their rows stay, so that replay brings nothing back.
import { orUndefined } from '../../base/errors.ts';
import type { Change, Database } from '../../store/sql.ts';
import { walk } from './walk.ts';

interface Holding {
  seq: number;
  body: Buffer;
}

/**
 * Erases one event, or all that hold this text as a whole JSON string: their bodies, the errors and notes of their tasks,
 * and the quarantined bytes about them or with this text.
 */
export async function erase(
  db: Database,
  what: { event: number } | { text: string },
): Promise<{ events: number; quarantined: number }> {
  const erased = { events: 0, quarantined: 0 };
  async function one(tx: Change, event: number): Promise<void> {
    erased.events += await tx.run('update events set body = null where seq = @event and body is not null', { event });
    const contradictions = 'update quarantine set body = null where event = @event and body is not null';
    erased.quarantined += await tx.run(contradictions, { event });
    await tx.run(
      `update tasks set notes = null, error = case when error is not null then 'erased' end where event = @event`,
      {
        event,
      },
    );
    await tx.run(`update attempts set error = 'erased' where event = @event`, { event });
  }
  // Makes SQLite overwrite deleted bytes, instead of only marking their place as free.
  if (db.dialect === 'sqlite') await db.write((tx) => tx.get('pragma secure_delete = on'));
  if ('event' in what) {
    await db.write((tx) => one(tx, what.event));
    return erased;
  }
  const bytes = Buffer.from(JSON.stringify(what.text));
  await walk(db, 'events', 'seq', async (stretch) => {
    // A body with escapes may spell the same text in another way.
    const holding = `select seq, body from events where seq > @from and seq <= @to
      and (instr(body, @text) > 0 or instr(body, @escape) > 0)`;
    const rows = await db.all<Holding>(holding, { ...stretch, text: bytes, escape: Buffer.from('\\u') });
    const found = rows.filter(({ body }) => body.includes(bytes) || plain(body).includes(bytes.toString()));
    if (found.length === 0) return;
    await db.write(async (tx) => {
      for (const { seq } of found) await one(tx, seq);
    });
  });
  const quarantine = 'update quarantine set body = null where instr(body, @bytes) > 0';
  erased.quarantined += await db.run(quarantine, { bytes });
  return erased;
}

const plain = (body: Buffer): string => JSON.stringify(orUndefined(() => JSON.parse(body.toString()) as unknown)) ?? '';
