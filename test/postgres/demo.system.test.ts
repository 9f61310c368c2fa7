// `npm run demo` on PostgreSQL: two instances, one of them killed, and right sums. It leaves no schema behind.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { expect, test } from 'vitest';

const server = process.env['TEST_POSTGRES_URL'] ?? '';

function demo() {
  const child = spawn(process.execPath, ['src/tools/demo/main.ts', '--once'], {
    env: { PATH: process.env['PATH'], DATABASE_URL: server },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]).then((parts) => parts.join(''));
  return { child, output, exited: once(child, 'exit').then(([code]) => code as number | null) };
}

/** The schemas of the demo with this pid. */
async function schemasOf(pid = 0): Promise<string[]> {
  const client = new Client({ connectionString: server });
  await client.connect();
  const { rows } = await client.query<{ nspname: string }>('select nspname from pg_namespace');
  await client.end();
  return rows.map(({ nspname }) => nspname).filter((name) => name.startsWith(`kit_demo_${pid}_`));
}

test('the demo kills the instance that leads, and its sums are right', { timeout: 180_000 }, async () => {
  const { child, output, exited } = demo();
  const said = await output;
  expect(said).toContain('The sums are right.');
  expect(said).toMatch(/leader killed with -9 +200 × 204/);
  expect(await exited).toBe(0);
  expect(await schemasOf(child.pid)).toEqual([]);
});

test('the demo that is ended early drops its schema', async () => {
  const { child, output, exited } = demo();
  while ((await schemasOf(child.pid)).length === 0) await sleep(20);
  child.kill('SIGINT');
  expect(await exited, await output).toBe(1);
  expect(await schemasOf(child.pid)).toEqual([]);
});
