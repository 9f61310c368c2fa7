// Plans are made while a store is small, and kept. A plan that reads whole tables would make each delivery slower.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createDesk, event, range } from '../store-contract/harness.ts';
import { kind as postgres } from './kind.ts';
import { schemaOf } from './pool.ts';

const ROUNDS = 40;
const EACH = 50;

test('no statement that accepts, claims or settles reads a large table as a whole', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-plans-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'events.db');
  const store = postgres.open(path, { owner: true });
  const desk = await createDesk(store);
  const { exec, query } = postgres.queries(path);
  // The server would make new plans when it has looked at the tables.
  for (const table of ['events', 'tasks', 'lanes']) exec(`alter table ${table} set (autovacuum_enabled = off)`);
  for (let round = 0; round < ROUNDS; round++) {
    const cursors = range(round * EACH + 1, (round + 1) * EACH);
    const readings = cursors.map((cursor) => event(String(cursor), `lane-${cursor % 300}`));
    await store.ingest.accept({ readings, now: desk.now });
    await store.ingest.accept({ readings, now: desk.now });
    await desk.fanOut();
    await desk.workOff();
  }
  // A server process counts what it has read when it ends.
  store.close();
  const read = (table: string) =>
    query<{ rows: number; seen: number }>(
      `select n_tup_ins as rows, coalesce(seq_tup_read, 0) as seen from pg_stat_user_tables
       where schemaname = ? and relname = ?`,
      schemaOf(path),
      table,
    )[0];
  for (const table of ['events', 'tasks']) {
    await vi.waitFor(() => expect(read(table)?.rows).toBe(ROUNDS * EACH), { timeout: 20_000, interval: 100 });
    expect(read(table)?.seen, table).toBeLessThan(2 * ROUNDS * EACH);
  }
});
