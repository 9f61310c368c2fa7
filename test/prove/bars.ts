// What the first edition got wrong, seen from outside: deaths beside good work, large bodies at once, hanging calls, kills of
// the whole kit during a lone task, and a foreign reader that pins the log.
import Database from 'better-sqlite3';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { deliver, startKit, textOf, until } from '../harness.ts';
import { percentile, unless, type Options, type Row } from './report.ts';
import { createSender, type Sent } from './sender.ts';
import { ownStore } from './store.ts';

/** The source of `line`, by which a handler notes what happened to which event (its cursor), and when. */
const LINES = `import { appendFileSync } from 'node:fs';
const line = (what, event) => appendFileSync(process.env.FOLDER + '/lines', what + ' ' + event.cursor + ' ' + Date.now() + '\\n');`;

export async function bars(options: Options): Promise<Row[]> {
  const rows = [await deaths(options), await large(options), await hanging(options), await lone(options)];
  return options.postgres === undefined ? [...rows, await pinned()] : rows;
}

/** Milliseconds from delivery to completion, by what the handlers wrote. */
function lags(lines: string[], what: string, sent: Sent[]): number[] {
  const ended = new Map(
    lines.flatMap((line) => {
      const [name, cursor = '', at] = line.split(' ');
      return name === what ? [[cursor, Number(at)] as const] : [];
    }),
  );
  return sent.map(({ cursor, at }) => (ended.get(cursor) ?? Infinity) - at);
}

async function deaths(options: Options): Promise<Row> {
  const handler = `${LINES}
import { execSync } from 'node:child_process';
export default { name: 'h', on: 'MessageReceived', async handle(event) {
  if (event.data.body === 'bad') execSync('kill -9 ' + process.pid);
  await new Promise((done) => setTimeout(done, 1000));
  line('good', event);
} };`;
  const kit = await startKit({ handlers: { 'h.js': handler }, env: ownStore(options) });
  const sender = createSender(() => kit.url, 1_000_000);
  const seconds = options.short ? 20 : 60;
  const good: Sent[] = [];
  const bad: Sent[] = [];
  const began = Date.now();
  const sending: Promise<unknown>[] = [];
  for (let n = 0; Date.now() - began < seconds * 1_000; n++) {
    sending.push(sender.send({ lane: `good${n}` }).then((sent) => good.push(sent)));
    if (n % 100 === 50) sending.push(sender.send({ lane: `bad${n}`, body: 'bad' }).then((sent) => bad.push(sent)));
    await sleep(Math.max(0, began + (n + 1) * 50 - Date.now()));
  }
  await Promise.all(sending);
  const isOver = async (): Promise<boolean> => {
    const { done, dead } = (await kit.status()).tasks;
    return done + dead >= good.length + bad.length;
  };
  await until('every task to end', isOver, 60_000).catch(() => {});
  const { tasks } = await kit.status();
  const p99 = percentile(lags(kit.lines(), 'good', good), 0.99);
  await kit.stop();
  return {
    what: 'a message that ends the process every 5 s, beside 20 good ones a second that take 1 s each',
    seen: `${good.length} good ones, p99 ${(p99 / 1_000).toFixed(1)} s; ${bad.length} bad ones; dead letters ${tasks.dead}`,
    violations: [
      ...unless(p99 <= (options.postgres === undefined ? 5_000 : 10_000), `p99 ${Math.round(p99)} ms`),
      ...unless(tasks.dead === bad.length, `${tasks.dead} dead letters of ${bad.length}`),
      ...unless(tasks.done === good.length, `${tasks.done} done of ${good.length}`),
    ],
  };
}

async function large(options: Options): Promise<Row> {
  const kit = await startKit({ env: ownStore(options) });
  const text = 'x'.repeat(4 * 2 ** 20);
  let most = 0;
  const timer = setInterval(() => {
    const [main = 0] = kit.pids();
    most = Math.max(most, rssMb(main));
  }, 20);
  const all = Array.from({ length: 40 }, (_, n) =>
    deliver(kit.url, { cursor: String(5_000 + n), data: { body: text } }).catch(String),
  );
  const statuses = await Promise.all(all);
  clearInterval(timer);
  await kit.stop();
  const refused = statuses.filter((status) => status !== 204);
  return {
    what: '40 signed bodies of 4 MiB at once',
    seen: `${statuses.length - refused.length} × 204, at most ${Math.round(most)} MB of memory`,
    violations: [
      ...unless(refused.length === 0, `refused: ${refused.join(', ')}`),
      ...unless(most < 400, `${most} MB`),
    ],
  };
}

const rssMb = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(textOf(`/proc/${pid}/status`))?.[1] ?? 0) / 1_024;

async function hanging(options: Options): Promise<Row> {
  const slow = `export default { name: 'slow', on: 'MessageReceived', lane: 'none', order: 'arrival', timeoutMs: 60000, async handle(event) {
    if (event.data.body === 'hang') await new Promise(() => {});
  } };`;
  const quick = `${LINES}
export default { name: 'quick', on: 'MessageReceived', lane: 'none', order: 'arrival', handle(event) { line('quick', event); } };`;
  const kit = await startKit({ handlers: { 'slow.js': slow, 'quick.js': quick }, env: ownStore(options) });
  await until('run to work', async () => (await kit.status()).handlers.length === 2);
  const sender = createSender(() => kit.url, 1_000_000);
  await Promise.all(Array.from({ length: 300 }, () => sender.send({ body: 'hang' })));
  const measured: Sent[] = [];
  for (let n = 0; n < 100; n++) {
    measured.push(await sender.send());
    await sleep(10);
  }
  await until('the quick one to end', () => kit.lines().length >= 400, 20_000).catch(() => {});
  const p99 = percentile(lags(kit.lines(), 'quick', measured), 0.99);
  await kit.kill();
  return {
    what: '300 hanging calls of one handler, beside another handler',
    seen: `p99 of the other ${Math.round(p99)} ms`,
    violations: unless(p99 <= 300, `p99 ${Math.round(p99)} ms`),
  };
}

async function lone(options: Options): Promise<Row> {
  const handler = `${LINES}
export default { name: 'h', on: 'MessageReceived', retry: { attempts: 3 }, async handle(event) {
  line('begun', event);
  await new Promise((done) => setTimeout(done, 3000));
  line('done', event);
} };`;
  const kit = await startKit({ handlers: { 'h.js': handler }, env: ownStore(options) });
  await deliver(kit.url, {
    cursor: '7',
    data: { session_id: '00000000-0000-4000-8000-000000000001', from: '1', message_id: 'm' },
  });
  const waits: number[] = [];
  for (let n = 0; n < 6; n++) {
    const since = Date.now();
    await until('the task to begin', () => kit.lines().filter((line) => line.startsWith('begun')).length > n, 20_000);
    waits.push(Date.now() - since);
    await kit.kill();
    await kit.start();
  }
  await until('the task to end', () => kit.lines().some((line) => line.startsWith('done')), 30_000).catch(() => {});
  const { tasks } = await kit.status();
  await kit.stop();
  // On PostgreSQL a kit that starts is another instance. It must wait until the one before counts as dead.
  const limitMs = options.postgres === undefined ? 5_000 : 15_000;
  return {
    what: 'the whole kit killed six times during a lone task of three attempts',
    seen: `begun again after ${Math.max(...waits)} ms at most; done ${tasks.done}, dead ${tasks.dead}`,
    violations: [
      ...unless(tasks.done === 1, 'it is not done'),
      ...unless(Math.max(...waits) < limitMs, 'it began late'),
    ],
  };
}

async function pinned(): Promise<Row> {
  const kit = await startKit({ handlers: { 'h.js': `export default { on: '*', handle() {} };` } });
  const sender = createSender(() => kit.url);
  const sending = sender.run(400, () => ({ body: 'x'.repeat(20_000) }));
  await sleep(1_000);
  const reader = new Database(join(kit.folder, 'events.db'), { readonly: true });
  reader.exec('begin');
  reader.prepare('select count(*) from events').get();
  await sleep(25_000);
  const size = (): number => statSync(join(kit.folder, 'events.db-wal')).size / 2 ** 20;
  const pinnedAt = size();
  const { alarms } = await kit.status();
  reader.exec('commit');
  reader.close();
  const since = Date.now();
  await until('the log to be short', () => size() < 64, 60_000).catch(() => {});
  const seconds = (Date.now() - since) / 1_000;
  const after = size();
  await sender.stop();
  await sending;
  await kit.stop();
  return {
    what: 'a foreign reader pins a snapshot for 25 s under load',
    seen: `the log had ${Math.round(pinnedAt)} MiB, and ${Math.round(after)} MiB after ${seconds.toFixed(1)} s; alarms meanwhile: ${alarms.map(({ name }) => name).join(', ')}`,
    violations: [
      ...unless(after < 64, `${Math.round(after)} MiB`),
      ...unless(pinnedAt < 64 || alarms.some(({ name }) => name === 'log_large'), 'the status says nothing'),
    ],
  };
}
