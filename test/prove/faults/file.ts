// F9 to F12: the store's file is damaged, missing, replaced, or restored from an older backup.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { watermarkOf, withAccount, type Account } from './account.ts';
import { killQuietly, RECORD } from '../../system/kit.ts';
import { eventually, stage, type Fault, type Scene } from './scene.ts';

const PAGE = 4_096;
/** REPLAY_FROM fetches history, which only handlers with `history: true` get. */
const HISTORY = { record: RECORD.replace('retry:', 'history: true, retry:') };
const pathOf = ({ kit }: Scene): string => join(kit.folder, 'events.db');
const rowsOf = ({ kit }: Scene): number => kit.query<{ n: number }>('select count(*) as n from events')[0]?.n ?? 0;

function cli(scene: Scene, ...args: string[]): void {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${pathOf(scene)}` };
  execFileSync(process.execPath, ['src/cli/kit.js', ...args], { env, stdio: 'ignore' });
}

/** Stores events, the first half in the store's file, the rest only in the WAL. Then kills all processes. */
async function killedWithLog(scene: Scene, { happen, whole }: Account): Promise<void> {
  happen(1);
  await watermarkOf(scene);
  happen(100);
  await whole();
  const reader = new Database(pathOf(scene), { readonly: true });
  // The open read transaction keeps checkpoints from copying later events into the file.
  reader.exec('begin');
  reader.prepare('select count(*) from events').get();
  // Completes a checkpoint. If the kill interrupted one, the file would need the WAL, which the fault damages.
  await eventually(() => isCopied(pathOf(scene)));
  happen(100);
  await whole();
  await scene.kit.killAll();
  reader.close();
}

/** True: a checkpoint has copied everything up to the open read transaction into the file. */
function isCopied(path: string): boolean {
  const db = new Database(path);
  try {
    const [{ busy }] = db.pragma('wal_checkpoint(passive)') as [{ busy: number }];
    return busy === 0;
  } finally {
    db.close();
  }
}

const logDamaged = (what: string, damage: (wal: string) => void, short = false): Fault => ({
  numbers: [9],
  what: `after a kill of all processes: ${what}`,
  ...(short && { short: true }),
  produce: (seed) =>
    withAccount(seed, { allowed: [0] }, async (scene, account) => {
      await killedWithLog(scene, account);
      const stored = account.simulator.history.all().length;
      damage(pathOf(scene));
      await scene.kit.start();
      const back = rowsOf(scene);
      scene.holds(await account.whole(), 'replay does not bring back what was lost');
      return `the start found ${back} or more of ${stored} events, replay brought the rest`;
    }),
});

const damaged = (what: string, damage: (path: string) => void): Fault => ({
  numbers: [10],
  what: `${what}; the start finds it, and the operator moves the file away`,
  produce: (seed) =>
    withAccount(seed, { handlers: HISTORY, env: { REPLAY_FROM: 'start' }, allowed: [503] }, async (scene, account) => {
      account.happen(100);
      await account.whole();
      const { kit } = scene;
      await kit.stop();
      damage(pathOf(scene));
      const refused = await kit.start().then(
        () => undefined,
        () => kit.output().trim().replaceAll(kit.folder, '…'),
      );
      const found = refused === undefined ? await notTaken(scene) : `refused: "${refused.slice(0, 120)}"`;
      const code = await kit.exited();
      scene.holds(refused === undefined || (code === 78 && !/\n\s+at |"level"/.test(refused)), `${code}: ${refused}`);
      renameSync(pathOf(scene), `${pathOf(scene)}.aside`);
      for (const end of ['-wal', '-shm', '-id']) rmSync(`${pathOf(scene)}${end}`, { force: true });
      await kit.start();
      scene.holds(await account.whole(), 'replay does not fill the new store');
      return `${found}; the new store is filled by replay`;
    }),
});

/** Checks a kit whose start did not find the damage: it must not acknowledge a delivery. */
async function notTaken(scene: Scene): Promise<string> {
  const status = await scene.send();
  const ready = await scene.probe();
  scene.holds(status === 503 && ready === 503, `a delivery got ${status}, readiness is ${ready}`);
  scene.kit.signal('SIGKILL');
  return `it started, and answered ${status}, readiness ${ready}`;
}

export const file: Fault[] = [
  logDamaged(
    'a bit of the log is flipped in its middle',
    (path) => flip(`${path}-wal`, statSync(`${path}-wal`).size >> 1),
    true,
  ),
  logDamaged('the log is cut in its middle', (path) => truncateSync(`${path}-wal`, statSync(`${path}-wal`).size >> 1)),
  logDamaged('the log is deleted', (path) => rmSync(`${path}-wal`)),
  logDamaged('the -shm file is garbage', (path) => writeFileSync(`${path}-shm`, Buffer.alloc(32_768, 0xa5))),
  damaged('the file is no database (NOTADB)', (path) => writeFileSync(path, 'this is no database'.repeat(1_000))),
  damaged('the file is cut after its first page', (path) => truncateSync(path, PAGE)),
  damaged('pages 2 to 12 are garbage', (path) => overwrite(path, PAGE, Buffer.alloc(11 * PAGE, 0xa5))),
  {
    numbers: [10],
    what: 'every page but the first turns to garbage while the kit is at work',
    produce: () =>
      stage({ allowed: [503], completes: false }, async (scene) => {
        const { kit } = scene;
        for (let n = 0; n < 50; n++) await scene.send();
        const pids = await Promise.all(['receive', 'run', 'keep'].map((role) => kit.alive(role)));
        await eventually(() => statSync(pathOf(scene)).size > 20 * PAGE);
        const before = statSync(pathOf(scene)).size;
        copyFileSync(pathOf(scene), join(scene.kit.folder, 'copy.db'));
        overwrite(pathOf(scene), PAGE, Buffer.alloc(before - PAGE, 0xa5));
        const acknowledged = new Set<number>();
        for (let n = 0; n < 3; n++) acknowledged.add(await scene.send());
        const ready = await scene.probe();
        for (const pid of pids) killQuietly(pid);
        await kit.exited();
        // A copy from before the damage takes the file's place, because the checks cannot query the damaged file.
        copyFileSync(join(kit.folder, 'copy.db'), pathOf(scene));
        await kit.start();
        return `3 deliveries got ${[...acknowledged].join(', ')}, readiness ${ready}`;
      }),
  },
  {
    numbers: [11],
    what: 'the file is unlinked while open, and put back later: nothing is accepted until the kit starts again (E12)',
    produce: () =>
      stage({ allowed: [503] }, async (scene) => {
        const path = pathOf(scene);
        scene.load(50);
        await scene.acknowledge(50);
        renameSync(path, `${path}.away`);
        const began = performance.now();
        scene.holds(await eventually(async () => (await scene.probe()) === 503, 10_000), 'not detected within 10 s');
        const found = performance.now() - began;
        renameSync(`${path}.away`, path);
        await scene.rest();
        scene.holds((await scene.send()) === 503, 'it accepts deliveries again by itself');
        scene.holds((await scene.kit.stop()) === 0, 'it does not stop');
        await scene.kit.start();
        scene.load(50);
        await scene.acknowledge(20);
        return `not ready after ${Math.round(found)} ms; everything is there after the next start`;
      }),
  },
  ...(['at work', 'stopped by SIGSTOP'] as const).map((how): Fault => ({
    numbers: [11],
    what: `a backup takes the place of the file under load, run and keep ${how}; then kit restore (E12)`,
    produce: (seed) =>
      withAccount(seed, { allowed: [0, 503] }, async (scene, account) => {
        const path = pathOf(scene);
        account.happen(50);
        await account.whole();
        await watermarkOf(scene);
        cli(scene, 'backup', `${path}.backup`);
        account.happen(50);
        await account.whole();
        const pids = [await scene.kit.alive('run'), await scene.kit.alive('keep')];
        if (how !== 'at work') for (const pid of pids) process.kill(pid, 'SIGSTOP');
        renameSync(`${path}.backup`, path);
        const before = readFileSync(path);
        const said = await eventually(() => scene.kit.output().includes('npx kit restore'), 10_000);
        scene.holds(said, 'the log does not name npx kit restore');
        scene.holds((await scene.send()) === 503, 'a delivery is accepted');
        scene.holds(await eventually(() => scene.kit.output().includes('"copy"')), 'nothing is copied');
        await scene.kit.stop();
        scene.holds(readFileSync(path).equals(before), 'the file that took its place was written to');
        const refused = await scene.kit.start().then(
          () => false,
          (error: Error) => error.message.includes('npx kit restore'),
        );
        scene.holds(refused, 'the start accepts the replaced file');
        await scene.kit.exited();
        const copy = readdirSync(scene.kit.folder).find((name) => /\.replaced-[^.]*Z$/.test(name)) ?? '';
        cli(scene, 'restore', join(scene.kit.folder, copy));
        await scene.kit.start();
        scene.holds(await account.whole(), 'replay does not fill it up');
        return '503 and refused until it was restored; everything is there';
      }),
  })),
  {
    numbers: [12],
    what: 'the backup of an earlier day is restored (npx kit backup, restore)',
    produce: (seed) =>
      withAccount(seed, { allowed: [0] }, async (scene, account) => {
        const { kit } = scene;
        account.happen(100);
        await account.whole();
        const watermark = await watermarkOf(scene);
        cli(scene, 'backup', join(kit.folder, 'yesterday.db'));
        account.happen(100);
        await account.whole();
        await kit.stop();
        cli(scene, 'restore', join(kit.folder, 'yesterday.db'));
        const [then, rows] = [await watermarkOf(scene), rowsOf(scene)];
        scene.holds(BigInt(then ?? 0) >= BigInt(watermark ?? 0), 'the watermark is older than the backup');
        await kit.start();
        scene.holds(await account.whole(), 'replay does not fill it up');
        return `restored with ${rows} events, filled up by replay; handlers handle the later events again`;
      }),
  },
];

function flip(path: string, at: number): void {
  const bytes = Buffer.alloc(1);
  const handle = openSync(path, 'r+');
  readSync(handle, bytes, 0, 1, at);
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  writeSync(handle, bytes, 0, 1, at);
  closeSync(handle);
}

function overwrite(path: string, at: number, bytes: Buffer): void {
  const handle = openSync(path, 'r+');
  writeSync(handle, bytes, 0, bytes.length, at);
  closeSync(handle);
}
