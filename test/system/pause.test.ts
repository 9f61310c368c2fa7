// Pauses under load: while handlers are paused, nothing runs, through kills, restarts and reloads; then everything
// that waited runs once, in the order of its lane.
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { createKit, load, RECORD, until, type Kit } from './kit.ts';

const run = promisify(execFile);
const LOAD = 100;

let kit: Kit | undefined;
afterEach(() => kit?.remove());

function commands(running: Kit) {
  const env = { ...process.env, DATABASE_URL: `sqlite:${running.folder}/events.db`, PORT: String(running.port) };
  return async (...args: string[]): Promise<string> => {
    const { stdout } = await run(process.execPath, [resolve('src/cli/kit.js'), ...args], { env, cwd: running.folder });
    return stdout;
  };
}

const seen = (running: Kit): number => running.query<{ n: number }>('select count(*) as n from seen')[0]?.n ?? 0;
const counter = (running: Kit, name: string): number =>
  running.query<{ value: number }>('select value from counters where name = ?', name)[0]?.value ?? 0;

test('kit pause under load: nothing runs until kit resume, through a kill, a restart and a reload, and nothing is lost or out of order', async () => {
  const running = (kit = await createKit({ record: RECORD }));
  const kitCommand = commands(running);
  await running.start();
  const sending = load(running, LOAD);
  await until(() => seen(running) > 100);
  expect(await kitCommand('pause', 'record', '--reason', 'a bot answers twice')).toContain('paused');
  await until(() => counter(running, 'tasks.running') === 0);
  const before = seen(running);
  /** More deliveries have become tasks, and none has run. */
  const holds = async (): Promise<void> => {
    const waiting = counter(running, 'waiting.record');
    await until(() => counter(running, 'waiting.record') > waiting + LOAD);
    expect(seen(running)).toBe(before);
  };
  await holds();
  expect(await kitCommand('pause', '--all')).toContain('paused');
  await running.killAll();
  await running.start();
  await holds();
  await running.reload();
  await holds();
  const { handlers } = JSON.parse(await kitCommand('handlers', '--json')) as { handlers: object[] };
  expect(handlers).toMatchObject([{ name: 'record', paused: { all: true } }]);
  expect(await kitCommand('resume', '--all')).toContain('on');
  await sending.stop();
  await until(() => seen(running) >= sending.acknowledged.size && counter(running, 'waiting.record') === 0);
  expect(seen(running)).toBe(counter(running, 'accepted'));
  const lanes = running.query<{ late: number; disorder: number }>(`
      select max(late) as late, sum(cursor < before) as disorder from (
        select cursor, late, lag(cursor, 1, 0) over (partition by lane order by n) as before from seen)`);
  expect(lanes).toEqual([{ late: 0, disorder: 0 }]);
});
