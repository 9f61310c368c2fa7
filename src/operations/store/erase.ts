// Erases what events hold. Their rows stay, so that replay brings nothing back.
import type { Change, Database } from '../../store/sql.ts';
import { walk, type Stretch } from './walk.ts';

/**
 * Erases one event, or all that hold this text as a whole JSON string: their bodies, the errors and notes of their tasks,
 * and the quarantined bytes about them or with this text.
 */
export async function erase(
  db: Database,
  what: { event: number } | { text: string },
): Promise<{ events: number; quarantined: number }> {
  const erased = { events: 0, quarantined: 0 };
  const lanesOf = 'select distinct lane from tasks where event in (select cast(value as bigint) from json_each(@seqs))';
  /** Locks the lanes first, so that an attempt that ends later sees the erasure and does not write its error. */
  async function all(tx: Change, seqs: number[]): Promise<void> {
    const lanes = await tx.all<{ lane: number }>(lanesOf, { seqs: JSON.stringify(seqs) });
    await tx.lock(lanes.map(({ lane }) => lane));
    for (const seq of seqs) await one(tx, seq);
  }
  async function one(tx: Change, event: number): Promise<void> {
    erased.events += await tx.run('update events set body = null where seq = @event and body is not null', { event });
    const contradictions = 'update quarantine set body = null where event = @event and body is not null';
    erased.quarantined += await tx.run(contradictions, { event });
    const ERASED = `error = case when error is not null then 'erased' end`;
    await tx.run(`update tasks set notes = null, ${ERASED} where event = @event`, { event });
    await tx.run(`update attempts set error = 'erased' where event = @event`, { event });
    // Tells `run` to forget the bodies that it keeps in memory.
    await tx.count({ erased: 1 });
  }
  // Makes SQLite overwrite deleted bytes, instead of only marking their place as free.
  if (db.dialect === 'sqlite') await db.write((tx) => tx.get('pragma secure_delete = on'));
  if ('event' in what) {
    await db.write((tx) => all(tx, [what.event]));
    return erased;
  }
  const text = JSON.stringify(what.text);
  async function holding(table: string, key: string, stretch: Stretch, spelt = text): Promise<number[]> {
    // A body with escapes may spell the same text in another way.
    const sql = `select ${key} as id, body from ${table} where ${key} > @from and ${key} <= @to
      and (instr(body, @text) > 0 or instr(body, @escape) > 0)`;
    const rows = await db.all<{ id: number; body: Buffer }>(sql, {
      ...stretch,
      text: Buffer.from(spelt),
      escape: Buffer.from('\\u'),
    });
    return rows.filter(({ body }) => plain(body).includes(spelt)).map(({ id }) => id);
  }
  await walk(db, 'events', 'seq', async (stretch) => {
    const found = await holding('events', 'seq', stretch);
    if (found.length > 0) await db.write((tx) => all(tx, found));
  });
  await walk(db, 'quarantine', 'id', async (stretch) => {
    // An item of replay holds JSON in a string.
    for (const spelt of [text, JSON.stringify(text).slice(1, -1)])
      for (const id of await holding('quarantine', 'id', stretch, spelt))
        erased.quarantined += await db.run('update quarantine set body = null where id = @id', { id });
  });
  return erased;
}

const plain = (body: Buffer): string =>
  body.toString().replaceAll(/\\u([\da-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
