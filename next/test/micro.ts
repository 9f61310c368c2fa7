import { openSqlite } from '../src/store/sqlite/open.ts';
import { rmSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
const L = Number(process.argv[2] ?? 10000), N = Number(process.argv[3] ?? 50000);
for (const e of ['', '-wal', '-shm']) rmSync('/tmp/micro.db' + e, { force: true });
let shift = 0;
const clock = { now: () => Date.now() + shift, monotonic: () => performance.now() };
const s = openSqlite('/tmp/micro.db', { synchronous: 'normal', clock });
s.db.raw.pragma('synchronous = off');
const { boot } = await s.work.begin('live', false);
const h = (await s.work.register([{ name: 'h', file: '/h.ts', fault: null }], 0)).get('h')!;
const body = 'y'.repeat(400);
let c = 1000;
const us = (u: NodeJS.CpuUsage) => ((u.user + u.system) / N).toFixed(1);
let c0 = process.cpuUsage();
for (let i = 0; i < N; i += 64)
  await s.ingest.accept({ readings: Array.from({ length: 64 }, (_, k) => ({ event: { origin: 'webhook' as const, cursor: String(++c) as never, id: randomUUID(), type: 'MessageReceived', session: 's', createdAt: Date.now(), body: Buffer.from(JSON.stringify({ id: i + k, type: 'MessageReceived', data: { MessageReceived: { from: (i + k) % L, body } } })) } })) });
console.log('ingest µs', us(process.cpuUsage(c0)));
s.db.raw.pragma('wal_checkpoint(truncate)');
c0 = process.cpuUsage();
let ended: never[] = [], done = 0, claim = 1, turns = 0;
shift = 1000;
const total = Math.ceil(N / 64) * 64;
while (done < total) {
  const look = await s.work.look([h]);
  const fanOut = [...look.pages].map(([from, { events, upTo }]) => ({ handler: h, from, upTo, tasks: events.map((e) => ({ handler: h, event: e.seq, cursor: e.cursor, receivedAt: e.receivedAt, lane: String(e.seq % L) })) }));
  const r = await s.work.turn({ boot, look, ended, fanOut, rooms: [{ handler: h, order: 'window', windowMs: 250, chain: 64, tasks: 256 }], claim, suspects: false });
  claim += r.claims.length; turns++;
  ended = r.claims.map((cl) => ({ claim: cl, free: true, outcomes: cl.tasks.map((t) => ({ event: t.event, as: 'done', error: null })) })) as never;
  for (const cl of r.claims) done += cl.tasks.length;
}
console.log('turn µs', us(process.cpuUsage(c0)), 'turns', turns);
