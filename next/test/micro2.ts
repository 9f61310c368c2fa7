import { rmSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import Database from 'better-sqlite3';
const [L, per, ps] = [10000, Number(process.argv[2] ?? 16), Number(process.argv[3] ?? 4096)];
for (const e of ['', '-wal', '-shm']) rmSync('/tmp/micro.db' + e, { force: true });
{ const d = new Database('/tmp/micro.db'); d.pragma('page_size = ' + ps); d.exec('create table x (a); drop table x'); d.close(); }
const { openSqlite } = await import('../src/store/sqlite/open.ts');
const clock = { now: () => Date.now(), monotonic: () => performance.now() };
const s = openSqlite('/tmp/micro.db', { synchronous: 'normal', clock });
const { boot } = await s.work.begin('live', false);
const h = (await s.work.register([{ name: 'h', file: '/h.ts', fault: null }], 0)).get('h')!;
const body = 'y'.repeat(400);
let c = 1000, n = 0, claim = 1, ended: never[] = [], done = 0, cpuI = 0, cpuT = 0;
const us = (u: NodeJS.CpuUsage) => u.user + u.system;
const N = 20000;
while (done < N) {
  const a = process.cpuUsage();
  if (n < N) await s.ingest.accept({ readings: Array.from({ length: per }, () => { n++; return { event: { origin: 'webhook' as const, cursor: String(++c) as never, id: randomUUID(), type: 'MessageReceived', session: 's', createdAt: Date.now(), body: Buffer.from(JSON.stringify({ id: n, type: 'MessageReceived', data: { MessageReceived: { from: (n * 7919) % L, body } } })) } }; }) });
  cpuI += us(process.cpuUsage(a));
  const b = process.cpuUsage();
  const look = await s.work.look([h]);
  const fanOut = [...look.pages].map(([from, { events, upTo }]) => ({ handler: h, from, upTo, tasks: events.map((e) => ({ handler: h, event: e.seq, cursor: e.cursor, receivedAt: e.receivedAt, lane: String((e.seq * 7919) % L) })) }));
  const r = await s.work.turn({ boot, look, ended, fanOut, rooms: [{ handler: h, order: 'arrival', windowMs: 0, chain: 64, tasks: 512 }], claim, suspects: false });
  claim += r.claims.length;
  ended = r.claims.map((cl) => ({ claim: cl, free: true, outcomes: cl.tasks.map((t) => ({ event: t.event, as: 'done', error: null })) })) as never;
  for (const cl of r.claims) done += cl.tasks.length;
  cpuT += us(process.cpuUsage(b));
  if (n % 4000 < per) s.db.raw.pragma('wal_checkpoint(passive)');
}
console.log('per', per, 'page', ps, 'ingest', (cpuI / N).toFixed(1), 'turn', (cpuT / N).toFixed(1));
