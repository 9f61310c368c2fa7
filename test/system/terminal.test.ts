// The kit on a terminal, which the command `script` provides.
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { createKit, SECRET, until, type Kit } from './kit.ts';

const HANDLER = `export default { on: 'MessageSent', handle() {} };`;

test('E64: npx kit reload works on a terminal, where SIGHUP ends the kit', async () => {
  const kit = await createKit({ one: HANDLER });
  const terminal = await onTerminal(kit);
  try {
    kit.addHandler('two', HANDLER);
    const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${kit.folder}/events.db` };
    const command = [`${process.cwd()}/src/cli/kit.js`, 'reload'];
    const { stdout } = await promisify(execFile)(process.execPath, command, { env, cwd: kit.folder });
    expect(stdout).toMatch(/^reloaded 2 handlers in \d+ ms\n$/);
    expect(terminal.running()).toBe(true);
    process.kill(await kit.alive('receive'), 'SIGHUP');
    await terminal.closed;
  } finally {
    terminal.end();
    await terminal.closed;
    await kit.remove();
  }
});

test('on a terminal the log is for people, and names the handlers, the page, and whether recovery is on', async () => {
  const kit = await createKit({ one: HANDLER });
  const terminal = await onTerminal(kit);
  try {
    await until(() => terminal.text().includes('recovery is off') && terminal.text().includes('the page is at'));
    const text = stripVTControlCharacters(terminal.text());
    expect(text).toMatch(/INFO: receive ready for deliveries/);
    expect(text).toMatch(/handlers: \[\s+"one"\s+\]/);
    expect(text).toContain(`INFO: keep the page is at http://127.0.0.1:${kit.opsPort}`);
    expect(text).not.toContain('{"level"');
  } finally {
    terminal.end();
    await terminal.closed;
    await kit.remove();
  }
});

test('the kit stops in order when its terminal is gone, though it cannot print any more', async () => {
  const kit = await createKit({ one: HANDLER });
  const terminal = await onTerminal(kit);
  try {
    const pids = [await kit.alive('receive'), await kit.alive('run'), await kit.alive('keep')];
    terminal.kill();
    await until(() => pids.every((pid) => !isAlive(pid)));
    // A process that stops normally removes its row. A crash leaves the row.
    expect(kit.query('select role from processes')).toEqual([]);
  } finally {
    terminal.kill();
    await kit.remove();
  }
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function onTerminal(
  kit: Kit,
): Promise<{ text: () => string; running: () => boolean; end: () => void; kill: () => void; closed: Promise<void> }> {
  const command = `exec ${process.execPath} ${process.cwd()}/src/main.ts`;
  const env = {
    PATH: process.env['PATH'],
    SHELL: '/bin/sh',
    WEBHOOK_SECRET: SECRET,
    PORT: String(kit.port),
    OPS_PORT: String(kit.opsPort),
    HANDLERS_DIR: join(kit.folder, 'handlers'),
    DATABASE_URL: `sqlite:${kit.folder}/events.db`,
  };
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    env,
    cwd: kit.folder,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const closed = new Promise<void>((done) => child.once('close', () => done()));
  await until(() => text.includes('ready for deliveries'));
  return {
    text: () => text,
    running: () => child.exitCode === null && child.signalCode === null,
    end: () => void child.kill('SIGTERM'),
    kill: () => void child.kill('SIGKILL'),
    closed,
  };
}
