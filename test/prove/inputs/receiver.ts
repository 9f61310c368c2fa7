// Shared by bodies.ts and changes.ts: a real receiver on a real file, raw requests over one kept connection, and
// queries of what the receiver has written.
import Database from 'better-sqlite3';
import { hmac, openReceiver, PATH, SECONDS } from '../../receive/harness.ts';
import type { Row } from '../report.ts';
import { told } from './check.ts';
import { createWire, type Wire } from './wire.ts';

export type Header = [name: string, value: string];

/** A random body. Reports print it as text with one character per byte. */
export interface Written {
  body: Buffer;
  /** True: the bytes are a readable event. */
  isEvent: boolean;
}

export function bodyIn(body: Buffer, isEvent: boolean): Written {
  return told(`bytes ${JSON.stringify(body.toString('latin1'))}`, { body, isEvent });
}

export interface Kept {
  kind: 'event' | 'quarantine';
  id: string | null;
  cursor: string | null;
  body: Buffer;
}

export interface Proving {
  wire: Wire;
  /** Deletes all rows that deliveries have made. */
  wipe: () => void;
  /** The rows of all tables, except those of counters and state. */
  countRows: () => number;
  kept: () => Kept[];
}

export async function withReceiver(work: (proving: Proving) => Promise<Row>): Promise<Row> {
  const receiver = await openReceiver({ synchronous: 'NORMAL' });
  const wire = createWire(receiver.port);
  const db = new Database(receiver.path);
  try {
    const row = await work({ wire, ...watch(db) });
    const pending = receiver.groupCommit.waiting();
    if (pending > 0) row.violations.push(`${pending} deliveries wait for ever`);
    return row;
  } finally {
    wire.close();
    db.close();
    await receiver.close();
  }
}

function watch(db: Database.Database): Omit<Proving, 'wire'> {
  const tables = db
    .prepare<[], string>(
      `select name from sqlite_schema where type = 'table' and name not in ('counters', 'state', 'sqlite_sequence')`,
    )
    .pluck()
    .all();
  db.pragma('synchronous = off');
  const deletes = tables.map((table) => db.prepare(`delete from ${table}`));
  const wipe = db.transaction(() => {
    for (const one of deletes) one.run();
  });
  const count = db
    .prepare<[], number>(`select ${tables.map((t) => `(select count(*) from ${t})`).join(' + ')}`)
    .pluck();
  const kept = db.prepare<[], Kept>(`
    select 'event' as kind, id, cast(cursor as text) as cursor, body from events
    union all select 'quarantine', null, null, body from quarantine`);
  return { wipe: () => wipe.immediate(), countRows: () => count.get() ?? 0, kept: () => kept.all() };
}

/** The bytes of a delivery. By default timestamp, signature and length are right. */
export function request(
  body: Buffer,
  headers: Header[] = [],
  { timestamp = String(SECONDS), signature = `v1=${hmac(body)}`, length = String(body.length) } = {},
): Buffer {
  const signed: Header[] = [
    ['X-Svc-Timestamp', timestamp],
    ['X-Svc-Signature', signature],
    ['Content-Length', length],
  ];
  const lines = [...headers, ...signed].map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `POST ${PATH} HTTP/1.1\r\nHost: receiver\r\n${lines.join('')}\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), body]);
}

export function splice(bytes: Buffer, at: number, length: number, between: Iterable<number>): Buffer {
  return Buffer.concat([bytes.subarray(0, at), Buffer.from([...between]), bytes.subarray(at + length)]);
}
