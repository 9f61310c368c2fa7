import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
const AXE = readFileSync('/tmp/w/axe/node_modules/axe-core/axe.min.js', 'utf8');
import { RULES } from '../../../src/alarms/rules/index.ts';
import { countsOf } from '../../../src/base/latency-buckets.ts';
import { createRandom } from '../../../src/tools/random.ts';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { fanOut, createOps, deliver, end, NOTHING_SET, type Ops } from '../harness.ts';
const random = createRandom(3);
const rules = Object.fromEntries(
  Object.entries(RULES).map(([n, r]) => [n, { page: n.includes('letter') ? '/dead-letters' : '/refused', ...r }]),
);
const OUT = process.argv[2] ?? '/tmp/w/shots';
const only = process.argv[3];
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
async function beat(ops: Ops) {
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
}
async function good(ops: Ops) {
  const at = new Date(ops.clock.time - 14_000).toISOString();
  const lastGoodAt = new Date(ops.clock.time - 4_000).toISOString();
  await ops.store.state.note(
    {},
    {
      replay: JSON.stringify({ state: 'idle', since: at, lastAt: at, reason: null, progress: null }),
      watermark: 60n,
      receipts: JSON.stringify({ at: ops.clock.time - 240_000, ranMs: 5, marks: [] }),
      failures: JSON.stringify({ causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt }),
    },
  );
}
async function live(ops: Ops, fail: number, hours = 26) {
  const { store, clock } = ops;
  await deliver(ops, ...Array.from({ length: 60 }, (_, n) => ({ cursor: `${n + 1}` })));
  const hs = await fanOut(ops, ['reply', 'conversations', 'crm-sync']);
  for (const h of hs)
    for (let n = 0; n < (fail > 0.3 && h === hs[0] ? 20 : 60); n++)
      await end(
        ops,
        h,
        fail > 0.3 && n % 9 === 0 ? 'dead' : 'done',
        fail > 0.3 ? `Error: the endpoint answered 50${n % 4}` : null,
      );
  const from = clock.time;
  const steps = hours * 60;
  for (let n = 0; n < steps; n++) {
    clock.time = from + n * 60_000;
    const wave = Math.max(0, Math.round(40 + 30 * Math.sin(n / 90) + random.below(12)));
    const counts: Record<string, number> = {
      accepted: wave,
      duplicates: random.below(3),
      'refused.path': random.below(9) === 0 ? 5 : 0,
    };
    for (let k = 0; k < wave; k++)
      for (const [a, b] of Object.entries(countsOf(0.8 / (1.03 - random.next())))) counts[a] = (counts[a] ?? 0) + b;
    for (const name of ['reply', 'conversations', 'crm-sync']) {
      const bad = name === 'reply' && n > steps - 200 ? Math.round(wave * fail) : random.below(20) === 0 ? 1 : 0;
      counts[`attempts.done.${name}`] = wave - bad;
      counts[`attempts.retry.${name}`] = bad;
      counts[`took.${[50, 100, 200, 500, 1000][random.below(5)]}.${name}`] = wave;
    }
    await store.state.note(counts as never, n === steps - 30 || n === steps - 700 ? { boot: BigInt(n) } : {});
    await store.read.sample(clock.time);
  }
}
const SCENES: Record<string, (ops: Ops) => Promise<void>> = {
  async empty(ops) {
    await beat(ops);
  },
  async healthy(ops) {
    await live(ops, 0);
    await beat(ops);
    await good(ops);
  },
  async busy(ops) {
    await live(ops, 0.02);
    await beat(ops);
    const { store } = ops;
    await deliver(ops, ...Array.from({ length: 400 }, (_, n) => ({ cursor: `${n + 100}` })));
    await fanOut(ops, ['reply', 'crm-sync'], { lane: 'wa:5511999990000' });
    for (let n = 0; n < 8; n++)
      await store.work.register([`handler-${n}-with-a-rather-long-name`, 'reply', 'conversations', 'crm-sync']);
    await store.state.note({ duplicates: 1_204_331, accepted: 5_000_000 });
    await store.read.sample(ops.clock.time);
    await beat(ops);
    await good(ops);
  },
  async trouble(ops) {
    await live(ops, 0.6);
    await beat(ops);
    await good(ops);
    const { store, clock } = ops;
    await store.admin.pause('crm-sync', 'answers twice', clock.time - 7_200_000);
    await store.alarms.raise(
      'dead_letters',
      '3 tasks are dead letters; newest cause: reply, Error. See why (npx kit tasks --state dead --groups, or the page, Dead letters), fix the handler, npx kit reload, then retry them',
      clock.time - 400_000,
    );
    await store.alarms.raise(
      'secret_mismatch',
      'Guess: the secret of the webhook has changed. 12 deliveries with a bad signature since 12:03, and none with a good one',
      clock.time - 40_000,
    );
    await store.alarms.raise(
      'gap_open',
      'gap 1: the service can no longer replay what came after cursor 12',
      clock.time - 9_000_000,
    );
    await store.ingest.accept({
      readings: [{ unreadable: { origin: 'webhook', cursor: null, body: Buffer.from('x'), reason: 'not an object' } }],
      now: clock.time,
      gap: { after: '12' as Cursor, upTo: null, reason: 'the cursor has expired' },
    });
    await deliver(ops, ...Array.from({ length: 9 }, (_, n) => ({ cursor: `${n + 100}` })));
    await fanOut(ops, ['reply'], { lane: 'wa:5511999990000' });
    await store.state.note(
      { conflicts: 2 },
      {
        failure_run: 4,
        failures: JSON.stringify({
          causes: { bad_signature: 4 },
          badSignatures: 12,
          badSince: null,
          lastBadAt: null,
          lastGoodAt: new Date(clock.time - 400_000).toISOString(),
        }),
      },
    );
    clock.time += 420_000;
    await store.read.sample(clock.time);
    await beat(ops);
  },
};
for (const [scene, make] of Object.entries(SCENES)) {
  if (only && !only.includes(scene)) continue;
  const ops = await createOps(NOTHING_SET, rules);
  await make(ops);
  const paths = {
    overview: '/?range=24h',
    handlers: '/handlers',
    handler: '/handlers/reply',
    discard: '/handlers/reply?older=30m',
  };
  for (const [name, path] of Object.entries(paths)) {
    if (scene === 'empty' && name.startsWith('handler') && name !== 'handlers') continue;
    for (const [kind, options] of Object.entries({
      desk: { viewport: { width: 1280, height: 800 } },
      dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' as const },
      phone: { viewport: { width: 390, height: 844 } },
      tiny: { viewport: { width: 320, height: 640 }, colorScheme: 'dark' as const },
    })) {
      if (kind === 'dark' && name !== 'overview') continue;
      const page = await browser.newPage({ ...options, bypassCSP: true });
      await page.goto(`http://127.0.0.1:${ops.port}${path}`);
      await page.screenshot({ path: `${OUT}/${scene}-${name}-${kind}.png`, fullPage: true });
      const found = await page
        .evaluate(
          `(()=>{${AXE};return axe.run(document,{runOnly:['wcag2a','wcag2aa','wcag21a','wcag21aa','wcag22aa','best-practice']}).then(r=>r.violations.map(v=>v.id+': '+v.nodes.slice(0,3).map(n=>n.html.slice(0,120)).join(' | ')))})()`,
        )
        .catch((e) => [String(e)]);
      const spill = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
      if ((found as string[]).length || spill) console.log(scene, name, kind, spill, found);
      if (kind === 'desk') console.log(scene, name, (await page.content()).length, await page.title());
      await page.close();
    }
  }
  await ops.close();
}
await browser.close();
