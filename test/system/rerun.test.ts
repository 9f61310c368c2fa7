// A rerun beside live events is killed and resumed: it handles each event once, and live events go on. RERUN_EVENTS
// sets the number of events.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, until, type Kit } from './kit.ts';

const EVENTS = Number(process.env['RERUN_EVENTS'] ?? 10_000);
const KIT = `${process.cwd()}/src/cli/kit.js`;
const LIMIT_MS = 30_000 + EVENTS * 5;
/** Records each run of an event, with the time since its receipt. */
const HANDLER = `
export default {
  on: 'MessageReceived',
  order: 'arrival',
  setup(tx) { tx.run('create table if not exists runs (n integer primary key, key text, cursor integer, lane text, late integer, ms integer)'); },
  async handle(event, ctx) {
    const ms = Date.now() - Date.parse(event.receivedAt);
    await new Promise((done) => setTimeout(done, 2));
    await ctx.complete((tx) => tx.run('insert into runs (key, cursor, lane, late, ms) values (?, ?, ?, ?, ?)',
      event.key, event.cursor, event.data.from, ctx.late ? 1 : 0, ms));
  },
};
`;

let kit: Kit;
afterEach(() => kit.remove());

function env(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${kit.folder}/events.db` };
}

function command(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((done) => {
    const child = execFile(process.execPath, [KIT, ...args], { env: env(), cwd: kit.folder }, (_, out, err) =>
      done({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

const total = (): number => kit.query<{ n: number }>('select count(*) as n from runs')[0]?.n ?? 0;
const ofHistory = (): number =>
  kit.query<{ n: number }>('select count(*) as n from runs where cursor < ?', 1_000 + EVENTS)[0]?.n ?? 0;

/** Milliseconds from the receipt to the handler's start, of the events with numbers from `from` up to below `to`. */
function delays(from: number, to: number): { events: number; median: number; p99: number; most: number } {
  const all = kit
    .query<{ ms: number }>('select ms from runs where cursor >= ? and cursor < ? order by ms', 1_000 + from, 1_000 + to)
    .map(({ ms }) => ms);
  const at = (part: number): number => all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0;
  return { events: all.length, median: at(0.5), p99: at(0.99), most: at(1) };
}

test(
  `a rerun of ${EVENTS} events that is killed and resumed beside live events handles each event once more, in the order of its lane`,
  { timeout: 4 * LIMIT_MS },
  async () => {
    kit = await createKit({ record: HANDLER });
    await kit.start();
    for (let n = 0; n < EVENTS; n += 200)
      await Promise.all(
        Array.from({ length: Math.min(200, EVENTS - n) }, (_, i) => deliver(kit, makeEvent(n + i, 500))),
      );
    await until(() => total() === EVENTS, LIMIT_MS);

    const quiet = load(kit, 100, EVENTS);
    await until(() => quiet.acknowledged.size >= 500);
    const before = await quiet.stop();
    await until(() => total() === before);

    const live = load(kit, 100, before);
    const following = spawn(
      process.execPath,
      [KIT, 'rerun', '--handler', 'record', '--from', '0', '--to', String(999 + EVENTS), '--yes'],
      {
        cwd: kit.folder,
        env: env(),
      },
    );
    await until(() => ofHistory() > EVENTS * 1.3, LIMIT_MS);
    const killedAt = before + live.acknowledged.size - 100;
    following.kill('SIGKILL');
    if (following.exitCode === null && following.signalCode === null) await once(following, 'exit');
    await kit.killAll();
    expect(ofHistory()).toBeLessThan(2 * EVENTS);
    await kit.start();
    await until(() => ofHistory() > EVENTS * 1.6, LIMIT_MS);
    process.kill(await kit.alive('run'), 'SIGKILL');
    const resumedAt = before + live.acknowledged.size + 200;
    await until(() => ofHistory() === 2 * EVENTS, LIMIT_MS);
    const next = await live.stop();

    const [{ ids } = { ids: 0 }] = kit.query<{ ids: number }>('select count(*) as ids from events');
    await until(() => total() === ids + EVENTS, LIMIT_MS);
    expect(
      kit.query('select key from runs where cursor < ? group by key having count(*) <> 2', 1_000 + EVENTS),
    ).toEqual([]);
    expect(
      kit.query('select key from runs where cursor >= ? group by key having count(*) <> 1', 1_000 + EVENTS),
    ).toEqual([]);
    const back = `select * from (select cursor, late, cursor < max(cursor) over (partition by lane order by n rows
      between unbounded preceding and 1 preceding) as back from runs where n > ? and cursor < ?) where back and not late`;
    expect(kit.query(back, EVENTS, 1_000 + EVENTS)).toEqual([]);
    const listed = await command('rerun', '--json');
    expect(JSON.parse(listed.out)).toMatchObject({
      reruns: [{ state: 'ended', seen: EVENTS, made: EVENTS, untried: 0 }],
    });
    if (process.env['RERUN_EVENTS'])
      process.stdout.write(
        `${JSON.stringify({ alone: delays(EVENTS, before), beside: delays(before, killedAt), resumed: delays(resumedAt, next) })}\n`,
      );
  },
);

test('npx kit rerun shows the number of events, needs --yes without a terminal, names the loaded handlers, and cannot cancel an ended rerun', async () => {
  kit = await createKit({ record: HANDLER });
  await kit.start();
  for (let n = 0; n < 5; n++) await deliver(kit, makeEvent(n));
  await until(() => total() === 5);
  const dry = await command('rerun', '--handler', 'record', '--from', '1001', '--dry-run', '--json');
  expect(JSON.parse(dry.out)).toMatchObject({ events: 4, purged: 0, types: [{ type: 'MessageReceived', events: 4 }] });
  const unsure = await command('rerun', '--handler', 'record', '--from', '1001');
  expect([unsure.code, unsure.err]).toEqual([2, expect.stringContaining('--yes')]);
  const unknown = await command('rerun', '--handler', 'recrod', '--from', '1001', '--yes');
  expect([unknown.code, unknown.err]).toEqual([1, 'no loaded handler is named recrod; loaded are: record\n']);
  const done = await command('rerun', '--handler', 'record', '--from', '2020-01-01', '--to', '1002', '--yes', '--json');
  expect(JSON.parse(done.out)).toMatchObject({ id: 1, state: 'ended', events: 3, seen: 3, made: 3 });
  expect(total()).toBe(8);
  expect((await command('rerun', 'cancel', '1')).code).toBe(1);
  expect((await command('rerun', '--json')).out).toContain('"state": "ended"');
  expect((await command('rerun', 'cancel', '2')).code).toBe(1);
});

test('tasks that wait for a renamed handler move to its new name', async () => {
  kit = await createKit({ old: `export default { on: 'MessageReceived', handle() { throw new Error('no'); } };` });
  await kit.start();
  for (let n = 0; n < 5; n++) await deliver(kit, makeEvent(n));
  await until(() => kit.query('select 1 from tasks where attempts > 0').length === 5);
  await kit.stop();
  kit.addHandler('old', HANDLER.replace('export default {', `export default { name: 'record',`));
  await kit.start();
  const wrong = await command('tasks', 'move', '--from', 'old', '--to', 'recrod');
  expect([wrong.code, wrong.err]).toEqual([1, 'no handler was ever named recrod; known are: old, record\n']);
  const moved = await command('tasks', 'move', '--from', 'old', '--to', 'record');
  expect(moved.out).toBe('5 tasks moved from old to record; those that are done stay\n');
  await until(() => total() === 5);
});
