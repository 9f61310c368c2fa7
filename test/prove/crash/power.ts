// Power loss. strace records every byte that a run writes. The recording shows what a power loss at many moments may
// leave on the disk. The kit's own store must open each of these images.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { createRandom } from '../../../src/tools/random.ts';
import { openSqlite } from '../../../src/store/sqlite/open.ts';
import { describe } from '../../../src/base/errors.ts';
import type { Options, Row } from '../report.ts';
import { createDisk, type Luck } from './disk.ts';
import { violationsIn } from './look.ts';
import { readRecording, type Step } from './recording.ts';
import { createStory, type Story } from './story.ts';
import { recorder } from './strace.ts';

/** The rebuilt disks are written to memory, which is faster than a disk. */
const MEMORY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
/** The number of rounds in the recorded run. */
const ROUNDS = { short: 1, long: 6 };
/** Steps after which more data must survive. The short form tries all of them, and about OTHERS other steps. */
const CERTAIN = new Set<Step['kind']>(['sync ends', 'acknowledged', 'completed']);
const OTHERS = 20;
const LUCKS: Luck[] = ['none', 'some', 'some', 'all'];
const ENOUGH = 20;

export async function power({ seed, short, progress }: Options): Promise<Row> {
  const random = createRandom(seed);
  const folder = mkdtempSync(join(MEMORY, 'kit-power-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  try {
    const { steps, story } = await record(seed, short ? ROUNDS.short : ROUNDS.long, join(folder, 'calls.txt'));
    const happened = story.happened();
    progress(`power: recorded ${steps.length} steps`);
    const [acknowledged, completed] = [new Set<string>(), new Set<string>()];
    const violations: string[] = [];
    const disk = createDisk();
    let [tried, images, commits] = [0, 0, false];
    for (const [n, step] of steps.entries()) {
      disk.take(step);
      if (step.kind === 'acknowledged') acknowledged.add(step.id);
      if (step.kind === 'completed') completed.add(step.key);
      // A commit is complete with the page of its last frame: the write that follows the frame's header.
      const committed = commits && step.kind === 'write';
      if (step.kind === 'write') commits = isLastHead(step);
      const chosen = !short || committed || CERTAIN.has(step.kind) || random.below(steps.length) < OTHERS;
      if (!chosen || violations.length >= ENOUGH) continue;
      tried++;
      for (const luck of disk.unsynced() > 0 ? LUCKS : LUCKS.slice(0, 1)) {
        const path = lay(join(folder, 'image'), disk.image(luck, random));
        images++;
        // Lets the event loop run, because better-sqlite3 frees closed connections only then.
        await turnOfTheLoop();
        const found = await violationsAfter(path, { acknowledged, completed, happened });
        violations.push(...found.map((one) => `step ${n} (${step.kind}), of what was not synced ${luck}: ${one}`));
      }
      if (tried % 500 === 0)
        progress(`power: step ${n} of ${steps.length}, ${images} images, ${violations.length} violations`);
    }
    const count = (kind: Step['kind']): number => steps.filter((step) => step.kind === kind).length;
    return {
      what: 'power lost, with unsynced writes dropped, whole or by sector',
      seen: `${count('write')} writes and ${count('sync ends')} syncs recorded, ${acknowledged.size} acknowledgements, ${completed.size} completions; ${images} images of ${tried} moments`,
      violations,
    };
  } finally {
    process.off('exit', remove);
    remove();
  }
}

/**
 * SQLite's WAL has a header of 24 bytes before each page. In the last frame of a commit, the header holds the size of
 * the database file, otherwise 0.
 */
function isLastHead({ file, bytes }: Extract<Step, { kind: 'write' }>): boolean {
  return file === '-wal' && bytes.length === 24 && bytes.readUInt32BE(4) > 0;
}

/** Records a run from the first start on an empty disk to a stop. */
async function record(seed: number, rounds: number, lines: string): Promise<{ steps: Step[]; story: Story }> {
  const story = await createStory(seed, recorder(lines));
  const { kit } = story;
  try {
    await kit.start();
    await story.deliver(1);
    for (let round = 0; round < rounds; round++) {
      await story.deliver();
      story.miss();
    }
    await story.settled();
    process.kill(await kit.alive('receive'), 'SIGTERM');
    await kit.exited();
    return { steps: await readRecording(lines, story.path), story };
  } finally {
    await story.close();
  }
}

/** Writes the files of an image into an empty folder. */
function lay(folder: string, image: Map<string, Buffer>): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [end, bytes] of image) writeFileSync(join(folder, `events.db${end}`), bytes);
  return join(folder, 'events.db');
}

async function violationsAfter(path: string, known: Parameters<typeof violationsIn>[1]): Promise<string[]> {
  try {
    openSqlite(path, { owner: true }).close();
    return violationsIn(path, known);
  } catch (error) {
    return [`the store does not open: ${describe(error).message}`];
  }
}
