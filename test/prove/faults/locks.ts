// F6 to F8: another program uses the store's file. It holds the write lock, reads for a long time, or writes after a
// read in the same transaction.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { stage, type Fault, type Scene } from './scene.ts';
import { lockOf } from './tools.ts';

const pathOf = ({ kit }: Scene): string => join(kit.folder, 'events.db');

const locked = (seconds: number, rate: number, allowed: number[]): Fault => ({
  numbers: [6],
  what: `the store is locked by another process for ${seconds} s, at ${rate} deliveries a second`,
  ...(seconds === 1 && { short: true }),
  produce: () =>
    stage({ allowed }, async (scene) => {
      scene.load(rate);
      await scene.acknowledge(rate);
      await sleep(500);
      scene.stood();
      const release = lockOf(pathOf(scene));
      await sleep(seconds * 500);
      const ready = await scene.probe();
      await sleep(seconds * 500);
      release();
      const stood = scene.stood();
      await scene.acknowledge(20);
      await scene.rest();
      // The kit is not ready once its store has failed for a second. During a short lock, readiness may stay up.
      scene.holds(seconds < 3 || ready === 503, `readiness was ${ready} half-way`);
      scene.holds((await scene.probe()) === 200, 'readiness did not come back');
      scene.holds(seconds < 20 || scene.statuses.has(503), 'nobody was answered in time with 503');
      return `readiness ${ready} half-way; ${stood}`;
    }),
});

export const locks: Fault[] = [
  locked(1, 200, []),
  locked(6, 100, []),
  locked(60, 20, [503]),
  {
    numbers: [7],
    what: 'under load another process reads, waits and then begins to write: what BEGIN IMMEDIATE spares the kit',
    produce: () =>
      stage({}, async (scene) => {
        scene.load(200);
        await scene.acknowledge(50);
        const other = new Database(pathOf(scene), { timeout: 0 });
        let tooLate = 0;
        for (let round = 0; round < 10; round++) {
          other.exec('begin');
          other.prepare('select count(*) from events').get();
          await scene.acknowledge(10);
          try {
            other.exec(`insert into counters values ('by another', 1) on conflict (name) do update set value = value`);
          } catch (error) {
            if ((error as { code?: string }).code === 'SQLITE_BUSY_SNAPSHOT') tooLate++;
          }
          other.exec('rollback');
        }
        other.close();
        scene.holds(tooLate > 0, 'the fault was not produced');
        return `the other process got SQLITE_BUSY_SNAPSHOT ${tooLate} of 10 times, the kit's three never`;
      }),
  },
  {
    numbers: [8],
    what: 'another process keeps a read transaction open for 8 s, under 100 deliveries a second of 100 KB',
    produce: () =>
      stage({}, async (scene) => {
        const log = (): number => Math.round(statSync(`${pathOf(scene)}-wal`).size / 2 ** 20);
        const body = 'x'.repeat(100_000);
        const deliverFor = async (ms: number): Promise<void> => {
          for (const end = Date.now() + ms; Date.now() < end;) {
            await Promise.all([...Array(10)].map(() => scene.send(scene.kit, body)));
            await sleep(50);
          }
        };
        await deliverFor(1_000);
        const reader = new Database(pathOf(scene), { readonly: true });
        reader.exec('begin');
        reader.prepare('select count(*) from events').get();
        const before = log();
        await deliverFor(8_000);
        const during = log();
        reader.exec('rollback');
        reader.close();
        await deliverFor(4_000);
        const after = log();
        await deliverFor(4_000);
        const end = log();
        scene.holds(end <= Math.max(after, 64), `the log goes on growing without the reader: ${after} to ${end} MB`);
        return `the log: ${before} MB before, ${during} MB with the reader, ${end} MB in the end; ${scene.stood()}`;
      }),
  },
];
