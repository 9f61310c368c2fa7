// The limit on the cost of a turn with very many strict lanes, in statements of SQLite.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { connect } from '../../src/store/sqlite/connection.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createSession } from '../../src/store/sql/session.ts';
import { createDatabase } from '../../src/store/sqlite/database.ts';
import { createWorkStore } from '../../src/store/sql/work/tasks.ts';
import type { Turn, TurnResult } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { done, ROOM, T0 } from '../store-contract/harness.ts';
import { reading, strictTask } from '../store-contract/strict.ts';

test('with twenty thousand strict lanes, a turn looks only at released lanes', async () => {
  const LANES = 20_000;
  const folder = mkdtempSync(join(tmpdir(), 'kit-strict-'));
  const path = join(folder, 'events.db');
  const store = openSqlite(path, { owner: true });
  const db = connect(path, { create: false, busyMs: 5_000 });
  try {
    let statements = 0;
    const prepare = db.prepare.bind(db);
    db.prepare = (sql: string) => countRuns(prepare(sql), () => statements++);
    const runner = createWorkStore(createSession(createDatabase(db, path)));
    const handler = (await runner.register(['strict'])).get('strict') ?? 0;
    const turn = (fields: Partial<Turn>): Promise<TurnResult> =>
      runner.turn({ now: T0, boot: 1, settle: [], fanOut: null, room: 0, handlers: [handler], ...fields });

    const readings = Array.from({ length: LANES }, (_, i) => reading(i + 1, `lane ${i}`));
    await store.ingest.accept({ readings, now: T0 });
    const { from, events } = await runner.pending(LANES);
    await turn({ fanOut: { from, upTo: LANES, tasks: events.map((event) => strictTask(event, handler)) } });
    expect((await turn({ room: ROOM })).unproven).toBe(LANES);

    statements = 0;
    expect((await turn({ room: ROOM })).claims).toEqual([]);
    const idle = statements;
    for (const watermark of [10, 20, 500]) {
      await store.ingest.accept({ readings: [], now: T0, watermark: String(watermark) as Cursor });
      statements = 0;
      const { claims, unproven } = await turn({ room: ROOM });
      expect(unproven).toBe(LANES - watermark);
      expect(statements).toBeLessThanOrEqual(idle + 10 + 2 * claims.length);
      await turn({ settle: claims.map(done) });
    }

    // The watermark rises far in one step. The lanes are released in turns of a bounded size.
    await store.ingest.accept({ readings: [], now: T0, watermark: '10000' as Cursor });
    for (let worked = 500; worked < 10_000;) {
      const { claims, nextAt } = await turn({ room: 2_000 });
      expect(claims.length).toBeGreaterThan(0);
      expect(claims.length).toBeLessThanOrEqual(ROOM);
      worked += claims.length;
      if (worked < 10_000) expect(nextAt).toBeLessThanOrEqual(T0);
      await turn({ settle: claims.map(done) });
    }

    // `searched` covers only finished tasks, so none is released. Each turn looks at one more page of waiting tasks.
    await store.state.note({}, { searched: 10_000 });
    for (let turns = 0; turns < 12; turns++) {
      statements = 0;
      expect(await turn({ room: ROOM })).toMatchObject({ claims: [], unproven: 10_000 });
      expect(statements).toBeLessThanOrEqual(idle + 10);
    }
    expect((await turn({ room: ROOM })).nextAt).toBeNull();

    await store.state.note({}, { searched: LANES });
    let unproven = 10_000;
    for (let turns = 0; unproven > 0; turns++) {
      const turned = await turn({ room: 2_000 });
      expect(turned.claims.every((claim) => claim.unproven)).toBe(true);
      expect(unproven - turned.unproven).toBeLessThanOrEqual(ROOM);
      unproven = turned.unproven;
      expect(turns).toBeLessThan(20);
    }
  } finally {
    db.close();
    store.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Counts each run of a statement, by `run`, `get` or `all`. */
function countRuns<Statement extends object>(statement: Statement, count: () => void): Statement {
  return new Proxy(statement, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === 'run' || name === 'get' || name === 'all') count();
        const result: unknown = Reflect.apply(value, target, args);
        return result === target ? countRuns(target, count) : result;
      };
    },
  });
}
