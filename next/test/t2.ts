import Database from 'better-sqlite3';
const db = new Database(':memory:');
db.exec('create table u (lane integer, cursor integer, event integer, a integer default 0, b integer default 0, n text, primary key(lane,cursor)) without rowid; create table l (id integer primary key, done integer, due integer, boot integer, claim integer, t integer); create index ld on l(due) where due is not null; create index lb on l(boot) where boot is not null');
const ins = db.prepare('insert into u (lane,cursor,event) values (?,?,?)'); const insl = db.prepare('insert into l values (?,?,?,null,null,null)');
db.transaction(() => { for (let i = 0; i < 10000; i++) { ins.run(i, i, i); insl.run(i, i, i); } })();
const time = (name: string, f: (l: number) => unknown) => { for (let k = 0; k < 2; k++) { const t = process.hrtime.bigint(); for (let l = 0; l < 10000; l++) f(l); if (k) console.log(name, Number(process.hrtime.bigint() - t) / 1e7, 'µs'); } };
const p = (s: string) => db.prepare(s);
const q = 'select event, cast(cursor as text), a, b, n from u where lane = ? order by cursor limit ?';
const a1 = p(q), a2 = p(q).raw(), a3 = p(q), g = p(q).raw(), pl = p('select event from u where lane = ? limit ?').pluck();
time('all objects', (l) => a1.all(l, 64)); time('all raw', (l) => a2.all(l, 64)); time('get raw', (l) => g.get(l, 64)); time('pluck get', (l) => pl.get(l, 64)); time('pluck all', (l) => pl.all(l, 64));
const nm = p(q.replace('= ?', '= @lane').replace('limit ?', 'limit @limit')).raw();
time('all raw named', (l) => nm.all({ lane: l, limit: 64 }));
const sub = p('select event, cast(cursor as text), a, b, n, cursor < (select done from l where id = @l) from u where lane = @l order by cursor limit 64').raw();
time('with subselect', (l) => sub.all({ l }));
db.exec('begin');
const up = p('update l set due = null, boot = ?, claim = ?, t = cast(? as integer) where id = ?'); time('update', (l) => up.run(1, 2, '5', l));
const up2 = p('update l set due = 5, boot = null, claim = null where id = ?'); time('update back', (l) => up2.run(l));
const big = p('select l.id, event, cast(cursor as text), a, b, n from l join u on u.lane = l.id where l.id < 10000').raw();
{ const t = process.hrtime.bigint(); big.all(); console.log('join all', Number(process.hrtime.bigint() - t) / 1e7, 'µs'); }
