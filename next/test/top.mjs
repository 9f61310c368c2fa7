import { readFileSync, readdirSync } from 'node:fs';
for (const f of readdirSync('/tmp/prof')) {
const p = JSON.parse(readFileSync('/tmp/prof/' + f));
const self = new Map(); const dt = p.timeDeltas; const byId = new Map(p.nodes.map((n) => [n.id, n]));
p.samples.forEach((id, i) => { const n = byId.get(id); const k = n.callFrame.functionName + ' ' + n.callFrame.url.split('/').slice(-2).join('/') + ':' + n.callFrame.lineNumber; self.set(k, (self.get(k) ?? 0) + dt[i]); });
console.log(f); let sum = 0; for (const v of self.values()) sum += v; 
for (const [k, v] of [...self].sort((a, b) => b[1] - a[1]).slice(0, 32)) console.log((v / 1000).toFixed(0).padStart(7), 'ms', k);
}
