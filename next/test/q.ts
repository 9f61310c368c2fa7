import { drive, startBenched, memoryMbOf, type Edition } from './bench/measure.ts';
const [count, ...which] = process.argv.slice(2);
for (const spec of (which.length ? which : ['64:10000', '64:16', '64:1', '256:10000'])) {
  const [connections, lanes] = spec.split(':').map(Number);
  const out: string[] = [];
  for (const edition of (process.env['ED'] ?? 'first,second').split(',') as Edition[]) {
    const kit = await startBenched(edition);
    const m = await drive(kit, { count: Number(count ?? 20000), connections, lanes });
    const f = (o: object) => Object.entries(o).map(([k, v]) => `${k} ${Number(v).toFixed(0)}`).join(" "); out.push(`${edition} ${f(m)} mem ${memoryMbOf(kit).toFixed(0)}`);
    await kit.stop();
  }
  console.log(spec, out.join(' | '));
}
process.exit();
