// The machine is lost: a new one gets the newest scheduled backup, and replay fetches what the service still has. The
// kits are real processes, beside the simulator.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { createKit, SECRET, type Kit } from './kit.ts';

const run = promisify(execFile);
const until = (holds: () => unknown) => vi.waitUntil(holds, { timeout: 60_000, interval: 50 });

/** Calls another system, which is a file: each call is a line with the idempotency key. */
const CALLS = `
import { appendFileSync } from 'node:fs';
import { defineHandler } from '#kit';
export default defineHandler({
  on: '*',
  handle(event, ctx) { appendFileSync(process.env.CALLS, event.cursor + ' ' + ctx.idempotencyKey + '\\n'); },
});`;

const cursorsOf = (kit: Kit): string[] =>
  kit
    .query<{ cursor: string }>(
      `select cast(e.cursor as text) as cursor from tasks t join events e on e.seq = t.event where t.state = 'done' and e.type <> 'kit.gap' order by e.cursor`,
    )
    .map(({ cursor }) => cursor);

test(
  'from the newest backup, nothing is missing but what the service has forgotten, which is a gap',
  { timeout: 180_000 },
  async () => {
    const outside = mkdtempSync(join(tmpdir(), 'kit-lost-'));
    const [backups, calls] = [join(outside, 'backups'), join(outside, 'calls')];
    const service = createSimulatedService({ seed: 7, addresses: { loopback: true } });
    const { key, secret: apiKey } = service.keys.create({ name: 'k', scopes: ['events:read'], validDays: null });
    const env: Record<string, string> = {
      API_BASE_URL: await service.listen(),
      API_KEY: apiKey,
      RECONCILE_INTERVAL_SECONDS: '1',
      RECONCILE_CALLS_PER_MINUTE: '100',
      CALLS: calls,
    };
    const old = await createKit({ calls: CALLS }, env);
    onTestFinished(async () => {
      await old.remove();
      await service.close();
      rmSync(outside, { recursive: true, force: true });
    });
    await old.start();
    await service.webhooks.register(key, { url: `http://localhost:${old.port}/webhooks`, secret: SECRET });
    const before = service.happen(8).map(({ cursor }) => cursor ?? '');
    const watermark = (kit: Kit): string | undefined =>
      kit.query<{ value: string }>("select cast(value as text) as value from state where name = 'watermark'")[0]?.value;
    await until(() => cursorsOf(old).length === before.length && watermark(old) === before.at(-1));
    await old.stop();

    env['BACKUP_DIR'] = backups;
    await old.start();
    const finished = (): string[] =>
      existsSync(backups) ? readdirSync(backups).filter((name) => name.endsWith('.db')) : [];
    await until(() => finished().length === 1 && old.output().includes('a backup was written and verified'));
    const after = service.happen(9).map(({ cursor }) => cursor ?? '');
    await until(() => cursorsOf(old).length === before.length + after.length);
    // It is killed, and its folder is deleted: only the backups are left.
    await old.remove();
    const [forgotten, last] = [after.slice(0, 4), after.slice(4)];
    service.history.expireUpTo(forgotten.at(-1) ?? '');

    const anew = await createKit({ calls: CALLS }, env);
    onTestFinished(() => anew.remove());
    const [name = ''] = finished();
    const url = `sqlite:${anew.folder}/events.db`;
    const restore = ['src/cli/kit.js', 'restore', join(backups, name)];
    await run(process.execPath, restore, { env: { PATH: process.env['PATH'], DATABASE_URL: url } });
    await anew.start();
    await until(() => cursorsOf(anew).length === before.length + last.length && watermark(anew) === last.at(-1));
    expect(cursorsOf(anew)).toEqual([...before, ...last]);
    expect(anew.query('select * from gaps where closed_at is null')).toMatchObject([{ after: Number(before.at(-1)) }]);

    const lines = readFileSync(calls, 'utf8').trim().split('\n');
    const of = (cursor: string): string[] => lines.filter((line) => line.startsWith(`${cursor} `));
    for (const cursor of [...before, ...forgotten]) expect(of(cursor), cursor).toHaveLength(1);
    for (const cursor of last) {
      expect(of(cursor), 'once before and once after').toHaveLength(2);
      expect(new Set(of(cursor)).size, 'with the same key').toBe(1);
    }
    expect(statSync(join(backups, name)).mode & 0o777).toBe(0o600);
    expect(await anew.stop()).toBe(0);
  },
);

test('a kit that stops while it writes its first backup leaves no half file behind, and writes one at its next start', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'kit-lost-'));
  const kit = await createKit({}, { BACKUP_DIR: outside });
  onTestFinished(async () => {
    await kit.remove();
    rmSync(outside, { recursive: true, force: true });
  });
  await kit.start();
  await until(() => readdirSync(outside).length > 0);
  expect(await kit.stop()).toBe(0);
  await kit.start();
  await until(() => readdirSync(outside).some((name) => name.endsWith('Z.db')));
  expect(readdirSync(outside).filter((name) => name.includes('.part'))).toEqual([]);
  expect(await kit.stop()).toBe(0);
});
