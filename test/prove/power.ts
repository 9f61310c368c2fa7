// Power failures. strace writes down each byte that a run of the kit writes. From each image of the disk that a power
// failure may leave, the store must open, and hold all that was promised.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { describe } from '../../src/base/errors.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { startService } from '../../src/tools/simulator/service.ts';
import { deliver, startKit, until } from '../harness.ts';
import { Disk, type Luck, type Step } from './disk.ts';
import { readRecording, recorder, requireStrace } from './recording.ts';
import type { Options, Row } from './report.ts';
import { COUNTING, look } from './store.ts';

/** Images are written to memory, because there are thousands. */
const MEMORY = '/dev/shm/kit-power-';
const ROUNDS = { short: 1, long: 6 };
const EACH = { delivered: 9, lost: 3 };
/** Moments from which on more must survive. The short form tries these, and a few others. */
const CERTAIN = new Set<Step['kind']>(['sync ends', 'acknowledged', 'completed']);
const LUCKS: Luck[] = ['none', 'some', 'some', 'all'];
const ENOUGH = 20;

export async function power({ short, progress }: Options): Promise<Row[]> {
  requireStrace();
  const folder = mkdtempSync(MEMORY);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const { steps, happened } = await record(short ? ROUNDS.short : ROUNDS.long, folder);
  progress(`recorded ${steps.length} steps`);
  const disk = new Disk();
  const sent: { id: string }[] = [];
  const completed: string[] = [];
  const violations: string[] = [];
  let [moments, images] = [0, 0];
  for (const [n, step] of steps.entries()) {
    disk.take(step);
    if (step.kind === 'acknowledged') sent.push({ id: step.what });
    if (step.kind === 'completed') completed.push(step.what);
    if (violations.length >= ENOUGH || (short && !CERTAIN.has(step.kind) && n % 10 > 0)) continue;
    moments++;
    for (const luck of disk.isOpen() ? LUCKS : LUCKS.slice(0, 1)) {
      lay(join(folder, 'image'), disk.image(luck));
      images++;
      // better-sqlite3 frees closed connections only between turns of the loop.
      await turnOfTheLoop();
      for (const one of await found(join(folder, 'image'), sent, { completed, happened }))
        violations.push(`step ${n} (${step.kind}), of what was not synced, ${luck} survives: ${one}`);
    }
    if (moments % 500 === 0)
      progress(`step ${n} of ${steps.length}, ${images} images, ${violations.length} violations`);
  }
  const count = (kind: Step['kind']): number => steps.filter((step) => step.kind === kind).length;
  const seen = `${images} images of ${moments} moments; ${count('write')} writes, ${count('sync ends')} syncs, ${sent.length} answers, ${completed.length} completions`;
  return [{ what: 'power failures, with what was not synced lost, torn or reordered', seen, violations }];
}

/** A run from the start on an empty disk to a stop: deliveries, some of them doubled, and events only by replay. */
async function record(rounds: number, folder: string): Promise<{ steps: Step[]; happened: string[] }> {
  const service = await startService({ firstCursor: 1_000n });
  const env = { ORDER_WINDOW_MS: '20', RECONCILE_INTERVAL_SECONDS: '1', TELL_COMPLETIONS: '1' };
  const access = { API_BASE_URL: service.url, API_KEY: service.key };
  const file = join(folder, 'calls');
  const options = { handlers: { 'counting.ts': COUNTING }, env: { ...env, ...access } };
  const kit = await startKit({ ...options, folder: join(folder, 'kit'), under: recorder(file) });
  const { history } = service;

  async function make(isDoubled: boolean): Promise<unknown> {
    const { id, cursor, createdAt, sessionId, data } = history.add();
    const event = { id, cursor, session_id: sessionId, created_at: createdAt, data };
    return Promise.all([deliver(kit.url, event), isDoubled && deliver(kit.url, event)]);
  }
  await make(false);
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < EACH.lost; n++) history.add();
    await Promise.all(Array.from({ length: EACH.delivered }, (_, n) => make(n % 3 === 0)));
    const all = history.all().length;
    await until('all to be handled', async () => (await look(kit.store, [])).done >= all, 90_000);
  }
  const happened = history.all().map(({ cursor }) => cursor ?? '');
  await kit.stop();
  await service.stop();
  return { steps: await readRecording(file, join(kit.folder, 'events.db')), happened };
}

function lay(folder: string, image: [name: string, bytes: Buffer][]): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [end, bytes] of image) writeFileSync(join(folder, `events.db${end}`), bytes);
}

async function found(folder: string, ...known: [sent: { id: string }[], more: Parameters<typeof look>[2]]) {
  const file = join(folder, 'events.db');
  try {
    openSqlite(file).close();
    return (await look(`sqlite:${file}`, ...known)).violations;
  } catch (error) {
    return [`the store does not open: ${describe(error).message}`];
  }
}
