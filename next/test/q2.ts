import { readFileSync } from 'node:fs';
import { drive, startBenched } from './bench/measure.ts';
const ed = (process.argv[2] ?? 'second') as 'second'; const count = Number(process.argv[3] ?? 20000);
const kit = await startBenched(ed);
const st = () => kit.pids().map((p) => { const f = readFileSync(`/proc/${p}/stat`, 'utf8').split(') ').at(-1)!.split(' '); const io = readFileSync(`/proc/${p}/io`, 'utf8'); return { p, u: Number(f[11]) * 10, s: Number(f[12]) * 10, w: Number(/wchar: (\d+)/.exec(io)![1]) / 1e6, sc: Number(/syscw: (\d+)/.exec(io)![1]), vol: Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${p}/status`, 'utf8'))![1]) }; });
const a = st();
const m = await drive(kit, { count, connections: 64, lanes: Number(process.argv[4] ?? 10000) });
const b = st();
const n = count + 4000;
for (const x of b) { const y = a.find((q) => q.p === x.p) ?? { u: 0, s: 0, w: 0, sc: 0, vol: 0 }; console.log(readFileSync(`/proc/${x.p}/cmdline`, 'utf8').split('\0').filter((q) => q.includes('.ts')).join(' ').slice(-60), 'user', (((x.u - y.u) * 1000) / n).toFixed(0), 'sys', (((x.s - y.s) * 1000) / n).toFixed(0), 'KB/event', (((x.w - y.w) * 1000) / n).toFixed(1), 'writes/event', ((x.sc - y.sc) / n).toFixed(2), 'switches', ((x.vol - y.vol) / n).toFixed(2)); }
console.log(JSON.stringify(m));
await kit.stop(); process.exit();
