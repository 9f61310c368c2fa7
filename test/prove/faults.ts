// Faults of the disk, of neighbours and of the clock under load. What was acknowledged is kept, what was refused is
// delivered again, and the kit goes on by itself.
import Database from 'better-sqlite3';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { deliver, startKit, until, type Kit } from '../harness.ts';
import { failure, unless, type Options, type Row } from './report.ts';
import { createSender } from './sender.ts';
import { COUNTING, look } from './store.ts';

export async function faults({ short, progress }: Options): Promise<Row[]> {
  const rows: Row[] = [];
  const all = [full, ...(short ? [1_000] : [1_000, 6_000, 60_000]).map((ms) => () => locked(ms)), deleted, set];
  for (const one of all) {
    rows.push(await one());
    progress(`${rows.at(-1)?.what}: ${rows.at(-1)?.seen}`);
  }
  return rows;
}

/** Delivers during the fault. Then everything must be handled, and nothing lost. `refusal`: allowed beside 503. */
async function under(kit: Kit, fault: () => Promise<string>, refusal = 503): Promise<Omit<Row, 'what'>> {
  const sender = createSender(() => kit.url, 20);
  const sending = sender.run(100, () => ({ body: 'x'.repeat(20_000) }));
  await kit.status();
  const words = await fault();
  await sleep(1_000);
  await sender.stop();
  await sending;
  const isOver = async () => (await look(kit.store, [])).done >= sender.acknowledged.length;
  const violations = await failure(until('everything to be handled', isOver, 60_000));
  violations.push(...(await look(kit.store, sender.acknowledged)).violations);
  const isOdd = [...sender.statuses.keys()].some((status) => ![204, 503, refusal].includes(status));
  violations.push(...unless(!isOdd, 'an answer had another status'));
  const statuses = [...sender.statuses].map(([status, n]) => `${n} × ${status}`).join(', ');
  return { seen: `${statuses}; ${words}`, violations };
}

async function full(): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-full-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=400m', 'tmpfs', folder]);
  if (status !== 0) throw new Error('the campaign needs root, because it mounts a small file system to fill it');
  try {
    const kit = await startKit({ folder, handlers: { 'counting.ts': COUNTING } });
    const filler = join(folder, 'filler');
    const { seen, violations } = await under(kit, async () => {
      // dd ends when the disk is full.
      spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k']);
      // The room of the ballast lasts for a while.
      await until('the ballast to be used up', async () => (await deliver(kit.url, { type: 'Probe' })) === 503, 60_000);
      await sleep(3_000);
      const { alarms } = await kit.status();
      rmSync(filler);
      return `alarms meanwhile: ${alarms.map(({ name }) => name).join(', ')}`;
    });
    await kit.stop();
    return { what: 'a full disk', seen, violations };
  } finally {
    spawnSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function locked(ms: number): Promise<Row> {
  const kit = await startKit({ handlers: { 'counting.ts': COUNTING } });
  const { seen, violations } = await under(kit, async () => {
    const foreign = new Database(join(kit.folder, 'events.db'), { timeout: 5_000 });
    foreign.exec('begin immediate');
    await sleep(ms);
    foreign.exec('commit');
    foreign.close();
    return `alarms: ${(await kit.status()).alarms.map(({ name }) => name).join(', ') || 'none'}`;
  });
  await kit.stop();
  return { what: `a lock that is held for ${ms / 1_000} s`, seen, violations };
}

async function deleted(): Promise<Row> {
  const kit = await startKit({ handlers: { 'counting.ts': COUNTING } });
  for (const end of ['', '-wal', '-shm']) rmSync(join(kit.folder, `events.db${end}`));
  await until('refusals', async () => (await deliver(kit.url, { type: 'Probe' })) === 503);
  const later = await Promise.all(Array.from({ length: 20 }, () => deliver(kit.url, { type: 'Probe' })));
  const refused = later.filter((status) => status === 503).length;
  const isTold = kit.output().includes('was replaced or deleted');
  const code = await kit.stop();
  return {
    what: 'a store that is deleted',
    seen: `${refused} of ${later.length} deliveries got 503; the exit code was ${code}`,
    violations: [...unless(refused === later.length, 'it took deliveries'), ...unless(isTold, 'the log says nothing')],
  };
}

/** Sets the clock of each process of the kit wrong, by the milliseconds in a file. */
const CLOCK = `import { readFileSync } from 'node:fs';
const { now } = Date;
let ms = 0;
setInterval(() => { try { ms = Number(readFileSync(process.env.FOLDER + '/clock', 'utf8')) } catch {} }, 20).unref();
Date.now = () => now() + ms;`;

async function set(): Promise<Row> {
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(CLOCK)}` };
  const kit = await startKit({ handlers: { 'counting.ts': COUNTING }, env });
  const steps = async (): Promise<string> => {
    for (const minutes of [10, -10, 60, 0]) {
      writeFileSync(join(kit.folder, 'clock'), String(minutes * 60_000));
      await sleep(2_000);
    }
    return '401 while the clock was wrong';
  };
  const { seen, violations } = await under(kit, steps, 401);
  await kit.stop();
  return { what: 'a clock that is wrong by 10 min, -10 min and an hour, and then right', seen, violations };
}
