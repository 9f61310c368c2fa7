// What the ops pages show in a browser: an empty store, a healthy kit, and a kit in trouble with hostile text.
import type { Cursor } from '../../src/wire/cursor.ts';
import { deliver, end, fanOut, SESSION, type Ops } from '../ops/harness.ts';

const HOSTILE = `<script>window.owned=1</script><img src=x onerror="window.owned=1">' onfocus='window.owned=1' \u202e\u0007 ${'w'.repeat(300)}`;

export async function empty(ops: Ops): Promise<void> {
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
}

export async function healthy(ops: Ops): Promise<void> {
  await deliver(ops, ...Array.from({ length: 40 }, (_, n) => ({ cursor: `90071992547409${n + 10}` })));
  const [handler = 0] = await fanOut(ops, ['answer']);
  for (let n = 0; n < 40; n++) await end(ops, handler, 'done');
  const from = ops.clock.time;
  for (let n = 0; n < 120; n++) {
    ops.clock.time = from + n * 30_000;
    const wave = Math.round(40 + 30 * Math.sin(n / 9));
    const acks = {
      'ack.2': wave,
      'ack.5': Math.round(wave / 2),
      'ack.20': 1,
      ...(n % 40 === 7 ? { 'ack.200': 2 } : {}),
    };
    await ops.store.state.note({
      accepted: wave,
      'tasks.done': wave,
      duplicates: n % 5,
      'refused.path': n % 7,
      ...acks,
    });
    await ops.store.read.sample(ops.clock.time);
  }
  await up(ops, 'idle', '9007199254740949');
}

/** Fills the store with every alarm, dead letters, and hostile text wherever senders can put text. */
export async function trouble(ops: Ops): Promise<void> {
  await healthy(ops);
  const session = HOSTILE.replaceAll(/[^!-~]/g, '').slice(0, 200);
  await deliver(
    ops,
    { cursor: '77', type: session.slice(0, 150), session: `${session}👩‍💻שלום`, data: { [HOSTILE]: HOSTILE } },
    { cursor: '78', session: '🧨'.repeat(250) },
    { cursor: '79' },
  );
  const [fragile = 0] = await fanOut(ops, [`hand-${'o'.repeat(120)}`]);
  await end(ops, fragile, 'dead', HOSTILE);
  await end(ops, fragile, 'dead', `TypeError: ${'cannot read properties of undefined '.repeat(12)}`);
  await end(ops, fragile, 'skipped', 'too old');
  const id = `evt_${HOSTILE.replaceAll(/[^!-~]/g, '').slice(0, 190)}`;
  await deliver(
    ops,
    { cursor: '9223372036854775807', id },
    { cursor: '9223372036854775806', id: 'other' },
    { cursor: '9223372036854775805', id: 'third' },
  );
  const ids = await ops.store.work.register(['handoff']);
  const handler = ids.get('handoff') ?? 0;
  const { from, events } = await ops.store.work.pending(100);
  const tasks = events.map(({ seq, cursor }) => ({
    event: seq,
    handler,
    lane: `${SESSION}/${HOSTILE}`,
    cursor,
    releaseAt: ops.clock.time,
  }));
  const now = ops.clock.time;
  await ops.store.work.turn({
    now,
    boot: 1,
    settle: [],
    fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks },
    room: 0,
    handlers: [],
  });
  const readings = [HOSTILE, '{"id":"evt_1"}', '[]'].map((text) => ({
    unreadable: { origin: 'webhook' as const, cursor: null, body: Buffer.from(text), reason: 'not an object' },
  }));
  const gap = { after: '9007199254740000' as Cursor, upTo: null, reason: `the cursor has expired ${HOSTILE}` };
  await ops.store.ingest.accept({ readings, now, gap });
  const refusal = {
    at: new Date(now).toISOString(),
    headers: 5,
    skewSeconds: -412,
    agent: HOSTILE.slice(0, 80),
    bytes: 1234,
  };
  await ops.store.state.note(
    { 'refused.bad_signature': 12, 'refused.clock_skew': 3, 'tasks.dead': 3 },
    {
      failure_run: 11,
      failures: JSON.stringify({
        causes: { store: 9, clock_skew: 2 },
        badSignatures: 12,
        badSince: refusal.at,
        lastBadAt: refusal.at,
        lastGoodAt: null,
      }),
      refusals: JSON.stringify({
        bad_signature: [refusal, refusal],
        clock_skew: [refusal],
        path: [{ ...refusal, headers: 0, skewSeconds: null }],
      }),
      verify: JSON.stringify({
        state: 'failed',
        reason: HOSTILE,
        asked: now,
        from: '1',
        at: '9007199254740949',
        pages: 3,
        events: 2_112,
        types: [
          { type: 'w'.repeat(200), present: 2_000, missing: 100, older: 7, onlyHere: 12, handled: 1_990, dead: 3 },
        ],
      }),
    },
  );
  await ops.store.alarms.raise(
    'failure_run',
    '11 deliveries in a row were not answered with 2xx (9 × store, 2 × clock_skew); at 15 the service switches the webhook off: see the log',
    now,
  );
  await ops.store.alarms.raise('gap_open', '1 stretches of history can no longer be fetched: see npx kit gaps', now);
  await ops.store.alarms.raise('reconcile_stopped', `reconciliation stopped (${HOSTILE}): fix API_KEY`, now);
  await up(ops, 'stopped', '9007199254740949', HOSTILE);
}

async function up(ops: Ops, state: string, watermark: string, reason: string | null = null): Promise<void> {
  for (const role of ['receive', 'run', 'keep'])
    await ops.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, ops.clock.time);
  const at = new Date(ops.clock.time - 14_000).toISOString();
  const failures = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt: at };
  const more = reason === null ? { failures: JSON.stringify(failures) } : {};
  await ops.store.state.note(
    { recovered: 7, replay_calls: 212 },
    {
      replay: JSON.stringify({ state, since: at, lastAt: at, reason, progress: null }),
      watermark: BigInt(watermark),
      ...more,
    },
  );
}
