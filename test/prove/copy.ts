// A team moves from SQLite to PostgreSQL: deliveries come through Caddy all the time, and a million events are stored
// already. Needs Caddy.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort } from '../../src/tools/sandbox.ts';
import { fill } from '../bench/fill.ts';
import { SECRET, startKit, until } from '../harness.ts';
import { startServer } from '../postgres/server.ts';
import { failure, unless, type Options, type Row } from './report.ts';
import { createSender } from './sender.ts';

const ROOT = join(import.meta.dirname, '../..');
const PAST = { short: 20_000, long: 1_000_000 };
const PER_SECOND = 200;
const BEFORE_MS = 5_000;
/** The same on both stores. */
const HANDLER = `export default { on: '*', setup: ['create table seen (cursor bigint)'], async handle({ cursor }, ctx) {
  await ctx.complete((tx) => tx.run('insert into seen values (?)', cursor));
} };`;

export async function copy({ short, progress }: Options): Promise<Row[]> {
  const past = short ? PAST.short : PAST.long;
  const folder = mkdtempSync(join(tmpdir(), 'kit-copy-'));
  const server = await startServer({ safe: true });
  const url = `${server.url}?schema=moved`;
  await fill('second', folder, { events: past, waiting: false });
  // The handler `noting` is the one that `fill` has registered.
  const kit = await startKit({ folder, handlers: { 'noting.js': HANDLER } });
  const caddy = await startCaddy(folder, kit.url);
  const sender = createSender(() => caddy.url);
  const sending = sender.run(PER_SECOND);
  await sleep(BEFORE_MS);
  const env = { ...process.env, DATABASE_URL: `sqlite:${join(folder, 'events.db')}`, WEBHOOK_SECRET: SECRET };
  const run = async (): Promise<number> => {
    const command = spawn(process.execPath, [join(ROOT, 'src/cli/kit.js'), 'copy', url], { cwd: folder, env });
    for (const stream of [command.stdout, command.stderr])
      stream.on('data', (part: Buffer) => progress(String(part).trim()));
    const [code] = (await once(command, 'exit')) as [number];
    return code;
  };
  const running = [await run(), await run()];
  const since = performance.now();
  await kit.stop();
  const stopped = performance.now();
  const last = await run();
  const copied = performance.now();
  await kit.start({ DATABASE_URL: url });
  const started = performance.now();
  await sleep(BEFORE_MS);
  await Promise.all([sender.stop(), sending]);
  const admin = new Client({ connectionString: server.url, options: '-c search_path=moved' });
  await admin.connect();
  const number = async (sql: string): Promise<number> =>
    Number(((await admin.query(sql)).rows as { n: unknown }[])[0]?.n ?? 0);
  const sent = sender.acknowledged.length;
  const isOver = async (): Promise<boolean> => (await number('select sum(done) as n from handlers')) === past + sent;
  const statuses = Object.fromEntries(sender.statuses);
  const violations = [
    ...(await failure(until('everything to be handled', isOver))),
    ...unless(running.every((code) => code === 1) && last === 0, `the commands ended with ${running.join()}, ${last}`),
    ...unless(Object.keys(statuses).join() === '204', `answers: ${JSON.stringify(statuses)}`),
    ...unless((await number('select count(*) as n from events')) === past + sent, 'an event is lost or doubled'),
    ...unless((await number('select count(*) as n from tasks where state = 1')) === past + sent, 'a task is lost'),
  ];
  await admin.end();
  await kit.stop();
  caddy.stop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
  const steps = [stopped - since, copied - stopped, started - copied].map((ms) => `${(ms / 1_000).toFixed(1)} s`);
  const seen = `${sent} deliveries; stop ${steps[0]}, the last copy ${steps[1]}, start ${steps[2]}`;
  return [{ what: `${past} events move to PostgreSQL behind Caddy, ${PER_SECOND} a second`, seen, violations }];
}

/** The project's Caddyfile, without TLS, on a free port. */
async function startCaddy(folder: string, receiver: string): Promise<{ url: string; stop: () => void }> {
  const port = await freePort();
  const file = join(folder, 'Caddyfile');
  const text = readFileSync(join(ROOT, 'Caddyfile'), 'utf8');
  const address = '{$SITE_ADDRESS}, https:// {';
  writeFileSync(file, text.replace(address, `http://127.0.0.1:${port} {`).replace('{\n', '{\n\tadmin off\n'));
  mkdirSync(join(folder, 'caddy'));
  const env = { ...process.env, RECEIVER: new URL(receiver).host, HOME: join(folder, 'caddy') };
  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], { env, stdio: 'ignore' });
  const fault = once(child, 'error').then(([error]) => Promise.reject(error as Error));
  const url = `http://127.0.0.1:${port}/webhooks`;
  const answers = (): Promise<boolean> =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await Promise.race([until('Caddy to answer', answers), fault]);
  return { url, stop: () => void child.kill() };
}
