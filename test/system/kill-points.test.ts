// kill -9 between any two system calls of a reconciliation: strace kills the process at the n-th of those that change
// something outside it, for one n after another. KILL_EVERY=1 takes each of them; without it, a sample.
import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { createSimulatedService } from '../../src/simulator/service.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { BEGINS, reconcile } from './reconciling.ts';

const EVERY = Number(process.env['KILL_EVERY'] ?? 24);
const EVENTS = 70;
const CALLS = 'write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,unlink,rename,sendto,sendmsg';
const SCRIPT = join(import.meta.dirname, 'reconciling.ts');

interface Point {
  name: string;
  nth: number;
}

const traces = spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']).status === 0;

test.skipIf(!traces)(
  `killed at every ${EVERY}th system call of a reconciliation (needs strace), the watermark is never ahead of the stored events`,
  { timeout: 900_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kit-kill-'));
    let time = Date.now();
    // A minute between two looks at it, so that the account's limit is no matter.
    const double = createSimulatedService({ seed: 3, clock: { now: () => (time += 60_000) } });
    const { secret: apiKey } = double.keys.create({ name: 'kill', scopes: ['events:read'], validDays: null });
    const baseUrl = await double.listen();
    const template = join(folder, 'template.db');
    try {
      const first = double.happen(1)[0];
      double.happen(EVENTS - 1);
      const cursors = double.history.all().map(({ cursor }) => BigInt(cursor ?? 0));
      await begin(template, first);

      const whole = await traced(fresh());
      expect(whole.killed).toBe(false);
      const points = whole.points.filter((_, n) => n % EVERY === 0);
      let kills = 0;
      for (const point of points) {
        const path = fresh();
        const { killed } = await traced(path, point);
        if (killed) kills++;
        check(path, cursors);
        await reconcile(path, baseUrl, apiKey);
        const { stored, watermark } = check(path, cursors);
        expect(stored, `complete after a kill at the ${point.nth}th ${point.name}`).toEqual(new Set(cursors));
        expect(watermark).toBe(cursors.at(-1));
      }
      // Not every run makes the same calls: some points are passed by.
      expect(kills).toBeGreaterThan(points.length / 2);
    } finally {
      await double.close();
      rmSync(folder, { recursive: true, force: true });
    }

    function fresh(): string {
      const path = join(folder, 'events.db');
      for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
      copyFileSync(template, path);
      return path;
    }

    /** Kills it as the main thread enters that call; lists those that it made since it began to read. */
    async function traced(path: string, point?: Point): Promise<{ killed: boolean; points: Point[] }> {
      const lines = join(folder, 'calls.txt');
      const inject = point ? ['-e', `inject=${point.name}:signal=KILL:when=${point.nth}`] : [];
      const options = ['-qq', '-f', '-o', lines, '-e', `trace=${CALLS}`, ...inject];
      const whole = await succeeds('strace', [...options, process.execPath, SCRIPT, path, baseUrl, apiKey]);
      return { killed: !whole, points: pointsOf(readFileSync(lines, 'utf8')) };
    }
  },
);

async function begin(
  path: string,
  first: { id: string; cursor: string | null; data: object } | undefined,
): Promise<void> {
  const store = openSqlite(path, { owner: true });
  const envelope = {
    id: first?.id,
    type: 'MessageReceived',
    created_at: new Date().toISOString(),
    cursor: first?.cursor,
    session_id: null,
    webhook_id: 'w',
    data: { MessageReceived: first?.data },
  };
  await store.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(envelope)))], now: Date.now() });
  await store.checkpoint(true);
  store.close();
}

/** What holds at any moment: the file is whole, and every event up to the watermark is in it. */
function check(path: string, cursors: bigint[]): { stored: Set<bigint>; watermark: bigint | null } {
  const db = new Database(path);
  try {
    expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
    db.defaultSafeIntegers();
    const stored = new Set(db.prepare<[], bigint>('select cursor from events where cursor is not null').pluck().all());
    const value =
      db.prepare<[], bigint | null>(`select value from facts where name = 'watermark'`).pluck().get() ?? null;
    const passed = value === null ? [] : cursors.filter((cursor) => cursor <= value && !stored.has(cursor));
    expect(passed, 'behind the watermark, and not stored').toEqual([]);
    return { stored, watermark: value };
  } finally {
    db.close();
  }
}

/** strace counts each kind of call by itself. */
function pointsOf(trace: string): Point[] {
  const lines = trace.split('\n');
  const main = lines[0]?.split(' ')[0];
  const seen = new Map<string, number>();
  const points: Point[] = [];
  let begun = false;
  for (const line of lines) {
    const [, thread, name] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    if (thread !== main || name === undefined) continue;
    const nth = (seen.get(name) ?? 0) + 1;
    seen.set(name, nth);
    if (begun) points.push({ name, nth });
    begun ||= line.includes(BEGINS);
  }
  return points;
}

function succeeds(command: string, args: string[]): Promise<boolean> {
  return new Promise((done) => execFile(command, args, (error) => done(error === null)));
}
