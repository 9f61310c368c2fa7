import { AsyncLocalStorage } from 'node:async_hooks';
import { rmSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { openSqlite } from '../src/store/sqlite/open.ts';
import { Runner } from '../src/run/runner.ts';
import { checkHandler } from '../src/run/load.ts';
import { createLog } from '../src/base/log.ts';
const L = Number(process.argv[2] ?? 10000), N = Number(process.argv[3] ?? 50000);
for (const e of ['', '-wal', '-shm']) rmSync('/tmp/micro.db' + e, { force: true });
const clock = { now: () => Date.now(), monotonic: () => performance.now() };
const s = openSqlite('/tmp/micro.db', { synchronous: 'normal', clock });
const { boot } = await s.work.begin('live', false);
const h = (await s.work.register([{ name: 'h', file: '/h.ts', fault: null }], 0)).get('h')!;
const body = 'y'.repeat(400);
let c = 1000;
for (let i = 0; i < N; i += 256)
  await s.ingest.accept({ readings: Array.from({ length: 256 }, (_, k) => ({ event: { origin: 'webhook' as const, cursor: String(++c) as never, id: randomUUID(), type: 'MessageReceived', session: 's', createdAt: Date.now(), body: Buffer.from(JSON.stringify({ id: i + k, type: 'MessageReceived', data: { MessageReceived: { session_id: '3f1c2f9e-3a55-4f7e-9a4e-0a6b5f8f1c11', message_id: 'm' + i, from: String((i + k) % L), body } } })) } })) });
s.db.raw.pragma('wal_checkpoint(truncate)');
await new Promise((r) => setTimeout(r, 300));
let done = 0, turns = 0;
const c0 = process.cpuUsage(), t0 = performance.now();
const handler = { ...checkHandler({ on: 'MessageReceived', handle() { done++; } }, 'h', false), file: '/h.ts' };
new Runner({ store: s.work, clock, log: createLog('run', 'warn'), boot, handlers: new Map([[h, handler]]), windowMs: 0, places: 32, suspects: false, scopes: new AsyncLocalStorage(), serviceFor: () => undefined as never, onTurn() { turns++; } });
const timer = setInterval(() => {
  if (done < N) return;
  const u = process.cpuUsage(c0);
  console.log('run µs', ((u.user + u.system) / done).toFixed(1), 'per s', Math.round(done / ((performance.now() - t0) / 1000)), 'turns', turns, 'done', done);
  clearInterval(timer); process.exit();
}, 5);
