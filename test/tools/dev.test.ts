// `npm run dev`: a real kit that loads what is saved, lines for people, and a page for this machine alone.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { attemptLine, otherLine } from '../../src/tools/dev/lines.ts';
import { until } from '../harness.ts';

const MAIN = join(import.meta.dirname, '../../src/tools/dev/main.ts');
const data = { session_id: '00000000-0000-4000-8000-000000000001', from: '15550100', message_id: 'm' };

/** `handlers`: source of `handle`, by name. */
function startDev(handlers: Record<string, string> = {}, args: string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-dev-'));
  mkdirSync(join(folder, 'handlers'));
  const save = (name: string, handle: string): void =>
    writeFileSync(
      join(folder, 'handlers', `${name}.ts`),
      `import { defineHandler } from '#kit';\nexport default defineHandler({ on: '*', order: 'arrival', handle(event) {\n${handle}\n} });\n`,
    );
  for (const [name, handle] of Object.entries(handlers)) save(name, handle);
  const env = { PATH: process.env['PATH'], HANDLERS_DIR: 'handlers' };
  const dev = spawn(process.execPath, [MAIN, '--no-open', ...args], { cwd: folder, env });
  let output = '';
  for (const stream of [dev.stdout, dev.stderr]) stream.on('data', (part: Buffer) => (output += part.toString()));
  onTestFinished(async () => {
    dev.kill('SIGINT');
    await until('dev to end', () => dev.exitCode !== null || dev.signalCode !== null);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const addressOf = (what: string): string => new RegExp(`${what} +(http://[\\w.:]+)`).exec(output)?.[1] ?? '';
  return {
    dev,
    save,
    addressOf,
    /** Waits for a line that matches. */
    said: async (line: RegExp): Promise<string> => {
      await until(`${String(line)} in:\n${output}`, () => line.test(output));
      return line.exec(output)?.[0] ?? '';
    },
    ask: async (path: string, body: unknown, headers: Record<string, string> = {}) => {
      const answer = await fetch(`${addressOf('page')}${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
    },
  };
}

test('what is broken is named, what is saved is loaded, each attempt has a line, and Ctrl-C ends all', async () => {
  const { dev, save, said, ask, addressOf } = startDev({ one: '', two: 'const = 3;' });
  await said(/broken +handlers\/two\.ts:3: SyntaxError.*\nloaded +one\n/);
  const { json } = await ask('/dev/send', { type: 'MessageReceived', data });
  await said(new RegExp(`one +done +\\d+ ms +MessageReceived +${String(json['key'])}`));
  save('two', 'throw new TypeError(`no ${event.type}`);');
  await said(
    /two +failed .* MessageReceived .* again at .*\n +TypeError: no MessageReceived \(\S*handlers\/two\.ts:3\)/,
  );
  await ask('/dev/send', { type: 'MessageReceived', data, again: { cursor: String(json['key']).slice(2) } });
  await until('the duplicate', async () => {
    const status = await fetch(`${addressOf('page')}/api/status`);
    return status.ok && ((await status.json()) as { duplicates: number }).duplicates === 1;
  });
  const statuses = [
    await ask('/dev/state', {}),
    await ask('/dev/state', {}, { origin: 'http://evil.example' }),
    await ask('/dev/save', { handler: '../../x', source: 'x' }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([200, 403, 400]);
  dev.kill('SIGINT');
  await until('dev to end', () => dev.exitCode === 0);
  await expect(fetch(addressOf('--url'))).rejects.toThrow('fetch failed');
});

test('a store that it did not make stays as it is', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-dev-'));
  const file = join(folder, 'events.db');
  new Database(file).exec('create table events (seq)').close();
  const before = readFileSync(file);
  const { dev, said } = startDev({}, ['--store', file]);
  await said(/is the store of another kit/);
  await until('dev to end', () => dev.exitCode === 2);
  expect(readFileSync(file)).toEqual(before);
  rmSync(folder, { recursive: true });
});

test('what strangers wrote stays on one line, and controls no terminal', () => {
  const told = { process: 'run', level: 40, time: '2026-01-01T00:00:00Z', handler: 'h', key: 'c:1', msg: 'x' };
  expect(otherLine({ ...told, msg: 'a\u001B[31m\nforged\u202E' })).toMatch(/ h: a forged$/);
  const error = attemptLine({ ...told, outcome: 'again' }, { error: 'no\u001B]0;title\u0007\nforged', state: 'dead' });
  expect(error.split('\n')).toHaveLength(2);
  expect(error).not.toContain('\u001B');
});
