// F1 to F5: a disk that is full, failing or read-only, and a process that may open no more files.
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RECORD } from '../../system/kit.ts';
import { eventually, stage, type Fault, type Scene } from './scene.ts';
import { failing, limitFiles, smallDisk } from './tools.ts';

const until204 = (scene: Scene): Promise<boolean> => eventually(async () => (await scene.send()) === 204);
const notReady = (scene: Scene): Promise<boolean> => eventually(async () => (await scene.probe()) === 503, 15_000);
const isReady = (scene: Scene): Promise<boolean> => eventually(async () => (await scene.probe()) === 200, 15_000);

/** Readiness must go down within seconds, and come back when the fault is over. */
async function comesBack(scene: Scene, begin: () => Promise<() => Promise<void> | void>): Promise<string> {
  scene.load(50);
  await scene.acknowledge(50);
  const end = await begin();
  const began = performance.now();
  scene.holds(await notReady(scene), 'readiness did not go down');
  const down = performance.now() - began;
  await sleep(1_000);
  await end();
  const ended = performance.now();
  scene.holds(await isReady(scene), 'readiness did not come back');
  const up = performance.now() - ended;
  await scene.rest();
  scene.holds(await until204(scene), 'no delivery is accepted afterwards');
  return `readiness down after ${Math.round(down)} ms, up ${Math.round(up)} ms after the fault`;
}

export const disk: Fault[] = [
  {
    numbers: [1],
    what: 'a tmpfs of 24 MB is filled under load, and emptied again',
    short: true,
    async produce() {
      const small = smallDisk(24);
      const { folder } = small;
      const env = { DATABASE_URL: `sqlite:${join(folder, 'events.db')}` };
      try {
        return await stage({ env, allowed: [503] }, (scene) =>
          comesBack(scene, async () => {
            const filler = join(folder, 'filler');
            fill(filler);
            return () => rmSync(filler);
          }),
        );
      } finally {
        small.remove();
      }
    },
  },
  {
    numbers: [2],
    what: 'ENOSPC for keep alone (strace: pwrite64, ftruncate), so that no checkpoint and no retention succeeds, for 5 s under load',
    produce: () =>
      stage({}, async (scene) => {
        scene.load(100);
        await scene.acknowledge(50);
        const { kit } = scene;
        const log = (): number => statSync(join(kit.folder, 'events.db-wal')).size;
        const before = log();
        const end = await failing(await kit.alive('keep'), 'pwrite64:error=ENOSPC', 'ftruncate:error=ENOSPC');
        await sleep(5_000);
        const [during, ready] = [log(), await scene.probe()];
        await end();
        scene.holds(ready === 200, `readiness is ${ready}`);
        scene.holds(kit.output().includes('the store cannot be written'), 'the log does not say it');
        scene.holds(!kit.output().includes('keep died'), 'keep died');
        await scene.acknowledge(20);
        return `the log grew from ${kib(before)} to ${kib(during)} KiB, keep logged it and did not die`;
      }),
  },
  ...(
    [
      ['pwrite64 once', ['pwrite64:error=EIO:when=1']],
      ['fdatasync once', ['fdatasync:error=EIO:when=1', 'fsync:error=EIO:when=1']],
      ['pwrite64 at every third call for 2 s', ['pwrite64:error=EIO:when=1+3']],
    ] as const
  ).map(([name, rules]): Fault => ({
    numbers: [3],
    what: `EIO for receive (strace): ${name}, under load`,
    produce: () =>
      stage({}, async (scene) => {
        scene.load(50);
        await scene.acknowledge(30);
        const end = await failing(scene.kit.pid('receive'), ...rules);
        await sleep(2_000);
        await end();
        await scene.acknowledge(30);
        const rows = scene.kit.query<{ n: number }>('select sum(copies) as n from events')[0]?.n ?? 0;
        return `retried within the time limit of a delivery, ${rows} were already stored`;
      }),
  })),
  {
    numbers: [3],
    what: 'EIO for receive (strace): every pwrite64 and fdatasync, until it is fixed',
    short: true,
    produce: () =>
      stage({ allowed: [503] }, (scene) =>
        comesBack(scene, async () => {
          const end = await failing(scene.kit.pid('receive'), 'pwrite64:error=EIO', 'fdatasync:error=EIO');
          await sleep(1_000);
          return end;
        }),
      ),
  },
  {
    numbers: [4],
    what: 'a read-only file system at the start (tmpfs, remount), writable again for the next start',
    async produce() {
      const small = smallDisk(24);
      const env = { DATABASE_URL: `sqlite:${join(small.folder, 'events.db')}` };
      try {
        return await stage({ env }, async (scene) => {
          const { kit } = scene;
          await scene.send();
          await kit.stop();
          small.remount('ro');
          const refused = await kit.start().then(
            () => 'it started',
            () => kit.output().trim(),
          );
          const code = await kit.exited();
          small.remount('rw');
          scene.holds(code === 78, `the start ended with ${code}`);
          scene.holds(!/\n\s+at /.test(refused), 'the refusal has a stack');
          await kit.start();
          await scene.send();
          return `refused with ${code}: "${refused.slice(0, 160).replaceAll(small.folder, '…')}"`;
        });
      } finally {
        small.remove();
      }
    },
  },
  {
    numbers: [4],
    what: 'a file system that turns read-only under load: the kernel refuses that for files in use, so EROFS by strace',
    produce: () =>
      stage({ allowed: [503] }, (scene) =>
        comesBack(scene, () =>
          failing(scene.kit.pid('receive'), 'pwrite64:error=EROFS', 'fdatasync:error=EROFS', 'ftruncate:error=EROFS'),
        ),
      ),
  },
  {
    numbers: [5],
    what: 'receive may open no more files than it has (prlimit), while 50 new connections a second come',
    produce: () =>
      stage({ handlers: { record: RECORD }, allowed: [0, 503] }, async (scene) => {
        const { kit } = scene;
        await scene.send();
        const pid = kit.pid('receive');
        const open = readdirSync(`/proc/${pid}/fd`).length;
        limitFiles(pid, open);
        const answers = await Promise.all(Array.from({ length: 50 }, () => scene.probe('/livez')));
        const cut = answers.filter((status) => status === 0).length;
        scene.load(50);
        await sleep(1_000);
        limitFiles(pid, 4_096);
        scene.holds(await isReady(scene), 'it does not come back');
        await scene.acknowledge(20);
        return `${cut} of 50 connections were closed at once, ${open} files open; afterwards all are taken`;
      }),
  },
];

/** Fills the disk to the last byte. */
export function fill(path: string): void {
  for (let block = 2 ** 20; block >= 1; block = Math.floor(block / 2)) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(block), { flag: 'a' });
    } catch {
      // The disk has no room for another block of this size. The loop tries smaller ones, down to one byte.
    }
  }
}

function kib(bytes: number): number {
  return Math.round(bytes / 1024);
}
