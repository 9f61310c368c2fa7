import { Settle } from '../src/store/sqlite/settle.ts';
import { Claiming } from '../src/store/sqlite/claim.ts';
import { Turns } from '../src/store/sqlite/turn.ts';
import Database from 'better-sqlite3';
const t = new Map<string, number>();
const wrap = (proto: object, name: string, key: string) => { const f = Reflect.get(proto, name); Reflect.set(proto, name, function (this: unknown, ...a: unknown[]) { const b = process.hrtime.bigint(); const r = f.apply(this, a); t.set(key, (t.get(key) ?? 0) + Number(process.hrtime.bigint() - b)); return r; }); };
wrap(Settle.prototype, 'all', 'settle'); wrap(Claiming.prototype, 'live', 'claim'); wrap(Claiming.prototype, 'suspects', 'suspects'); wrap(Claiming.prototype, 'nextAt', 'nextAt');
const ex = Database.prototype.exec; Database.prototype.exec = function (sql: string) { const b = process.hrtime.bigint(); const r = ex.call(this, sql); t.set('exec ' + sql.slice(0, 8), (t.get('exec ' + sql.slice(0, 8)) ?? 0) + Number(process.hrtime.bigint() - b)); return r; };
const turn = Turns.prototype.turn; 
for (const k of ['look', 'turn']) { const f = Reflect.get(Turns.prototype, k); Reflect.set(Turns.prototype, k, async function (this: unknown, ...a: unknown[]) { const b = process.hrtime.bigint(); const r = await f.apply(this, a); t.set(k, (t.get(k) ?? 0) + Number(process.hrtime.bigint() - b)); return r; }); }
process.argv[2] ??= '256';
await import('./micro2.ts');
for (const [k, v] of t) console.log(k.padEnd(16), (v / 1000 / 20000).toFixed(1), 'µs');
