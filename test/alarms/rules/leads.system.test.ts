// Every command that an alarm's text names must help. Each alarm is raised on a real store, and its commands run
// there. A list that the text names must not be empty.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { addCrash } from '../../../src/processes/crashes.ts';
import { createAlarms } from '../../../src/alarms/alarms.ts';
import { KEEP_RULES } from '../../../src/alarms/rules/index.ts';
import { readDelivery, readItem } from '../../../src/wire/event.ts';
import { fanOut, claim, createOps, deliver, end, INSTANCES, share, type Ops } from '../../ops/harness.ts';
import { COMPOSE } from '../alert-endpoint.ts';

const GB = 1024 ** 3;
const HOUR_MS = 3_600_000;
/** Commands that print a list, and the field of their JSON output that holds it. */
const LISTS: Record<string, string> = { events: 'events', tasks: 'tasks', gaps: 'gaps', quarantine: 'quarantine' };
const CHANGES = ['retry', 'restore', 'reconcile', 'discard', 'reload', 'rerun', 'resume', 'backup'];
const LOOKS = ['status', 'doctor'];

type Made = (ops: Ops) => Promise<unknown>;

const replay = (ops: Ops, state: string, reason: string) =>
  ops.store.state.note(
    {},
    {
      replay: JSON.stringify({
        state,
        since: new Date(ops.clock.time).toISOString(),
        lastAt: null,
        reason,
        progress: null,
      }),
    },
  );
const bad = (ops: Ops) => {
  const at = new Date(ops.clock.time).toISOString();
  const failures = { causes: {}, badSignatures: 3, badSince: at, lastBadAt: at, lastGoodAt: null };
  const refused = { at, headers: 5, skewSeconds: 0, agent: 'Svc-Webhooks/1', bytes: 2 };
  const refusals = JSON.stringify({ bad_signature: [refused] });
  return ops.store.state.note({}, { failures: JSON.stringify(failures), refusals });
};

/** Stores more events than a list searches for one page, so that the alarm's own event is not among the newest. */
async function crowd(ops: Ops): Promise<void> {
  const readings = Array.from({ length: 11_000 }, (_, n) =>
    readDelivery(Buffer.from(JSON.stringify({ id: `f${n}`, type: 'A', cursor: String(n + 10), data: { A: {} } }))),
  );
  await ops.store.ingest.accept({ readings, now: ops.clock.time });
}

const MADE: [name: string, make: Made, laterMs?: number][] = [
  ['failure_run', (ops) => ops.store.state.note({}, { failure_run: 3 })],
  ['failure_run', (ops) => ops.store.state.note({ failure_runs: 1 })],
  ['failure_run', (ops) => ops.store.state.note({ unseen_failures: 3 })],
  [
    'webhook_silent',
    async (ops) => {
      await deliver(ops, { cursor: '1', type: 'MessageSent', data: {} });
      const text = `{"MessageSent":{"session_id":null,"timestamp_unix_ms":${ops.clock.time}}}`;
      ops.clock.time += 1_000;
      await ops.store.ingest.accept({
        readings: [readItem('replay', '9' as never, text)],
        now: ops.clock.time,
        fresh: true,
      });
    },
    200_000,
  ],
  ['secret_mismatch', bad],
  ['clock_skew', (ops) => ops.store.state.note({ 'refused.clock_skew': 3 })],
  ['body_limit', (ops) => ops.store.state.note({ 'refused.body_limit': 1 })],
  ['connections', (ops) => ops.store.state.note({ connections_full: 5 })],
  [
    'replay_blind',
    async (ops) => {
      await deliver(ops, { cursor: '1' });
      await ops.store.state.note({ unseen: 1 }, { blind: '["MessageSent"]' });
    },
  ],
  ['reconcile_stopped', (ops) => replay(ops, 'stopped', 'ReplayEvents: 401 UNAUTHENTICATED')],
  ['reconcile_behind', (ops) => replay(ops, 'backing-off', '503'), 200_000],
  [
    'gap_open',
    async (ops) =>
      ops.exec(`insert into gaps (after, up_to, reason, opened_at) values (10, 20, 'reset', ${ops.clock.time})`),
  ],
  ['conflict', (ops) => deliver(ops, { cursor: '1', id: 'a' }, { cursor: '2', id: 'a', data: { other: 1 } })],
  [
    'conflict',
    async (ops) => {
      await deliver(ops, { cursor: '1', id: 'a' }, { cursor: '2', id: 'a', data: { other: 1 } });
      await crowd(ops);
    },
  ],
  ['cursor_regression', (ops) => ops.store.state.note({ regressions: 1 })],
  [
    'dead_letters',
    async (ops) => {
      await deliver(ops, { cursor: '1' });
      const [handler = 0] = await fanOut(ops, ['answer']);
      await end(ops, handler, 'dead', 'Error: no');
    },
  ],
  [
    'run_crashing',
    async (ops) => {
      await deliver(ops, { cursor: '1' });
      const [handler = 0] = await fanOut(ops, ['answer']);
      await claim(ops, handler);
      const back = await ops.store.processes.giveBack([], ops.clock.time);
      const crashes = addCrash(await ops.store.state.get('crashes'), back, 'exit code 7', ops.clock.time);
      await ops.store.state.note({ run_crashes: 3 }, { crashes: JSON.stringify(crashes) });
    },
  ],
  ['run_crashing', (ops) => ops.store.processes.gone('run'), 0],
  [
    'handler_failing',
    async (ops) => {
      // The task has no lane. A text that names `tasks --lanes` fails the test, because that list is empty.
      await deliver(ops, { cursor: '1' });
      await fanOut(ops, ['answer']);
      await ops.store.state.note({ 'attempts.retry.answer': 9 });
    },
    400_000,
  ],
  [
    'handler_failing',
    async (ops) => {
      await deliver(ops, { cursor: '1' });
      await fanOut(ops, ['answer', 'other']);
      await crowd(ops);
      ops.exec(`insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, started_at, changed_at)
        select seq * 4096 + 2, seq, 2, null, 1, cursor, 'ready', 0, 1, 1, 1, 1 from events where seq > 1;
        update state set value = 11001 where name = 'fanned_out'; update counters set value = 11002 where name = 'tasks.ready'`);
      await ops.store.state.note({ 'attempts.retry.answer': 9 });
    },
    400_000,
  ],
  [
    'lane_stuck',
    async (ops) => {
      await deliver(ops, { cursor: '1' }, { cursor: '2' });
      const [handler = 0] = await fanOut(ops, ['answer'], { lane: 'one' });
      const turn = { now: ops.clock.time, boot: 1, fanOut: null, handlers: [handler] };
      const { claims } = await ops.store.work.turn({ ...turn, settle: [], room: 1 });
      const failed = { state: 'ready', error: 'Error: no', dueAt: ops.clock.time, holdMs: 86_400_000 } as const;
      await ops.store.work.turn({ ...turn, settle: claims.map((one) => ({ claim: one, ...failed })), room: 0 });
    },
    931_000,
  ],
  ['instance_lost', (ops) => share(ops, INSTANCES)],
  [
    'handlers_differ',
    (ops) =>
      share(
        ops,
        INSTANCES.map((one) => ({ ...one, handlers: one.leads ? one.handlers : [] })),
      ),
    61_000,
  ],
  [
    'handler_paused',
    async (ops) => {
      await ops.store.work.register(['answer']);
      await ops.store.admin.pause('answer', 'answers twice', ops.clock.time);
    },
    86_500_000,
  ],
  [
    'backup_old',
    (ops) => {
      const backup = { at: ops.clock.time, verifiedAt: null, file: null, bytes: null, failures: 2, error: 'no room' };
      return ops.store.state.note({}, { backup: JSON.stringify(backup) });
    },
  ],
  ['lane_fault', (ops) => ops.store.state.note({ 'lane_faults.answer': 1 })],
  ['disk_low', async () => {}],
  [
    'poisoned',
    async (ops) => {
      const unreadable = {
        origin: 'webhook',
        cursor: null,
        body: Buffer.from('{}'),
        reason: 'poisoned: TOOBIG',
      } as const;
      await ops.store.ingest.accept({ readings: [{ unreadable }], now: ops.clock.time });
    },
  ],
  [
    'watermark_ahead',
    async (ops) => {
      await deliver(ops, { cursor: '99' });
      await ops.store.state.note({ watermark_ahead: 1 }, { lowered: '{"from":"99","to":"7"}' });
    },
  ],
];

test('this file raises every alarm of `keep`', () => {
  expect(new Set(MADE.map(([name]) => name))).toEqual(new Set(Object.keys(KEEP_RULES)));
});

test.each(MADE)('E42: %s names only commands that help, and no empty list', async (name, make, laterMs = 2_000) => {
  const ops = await createOps();
  onTestFinished(() => ops.close());
  const { store, clock, log } = ops;
  const freeBytes = (): number => (name === 'disk_low' ? 0 : 100 * GB);
  const given = { alertUrl: undefined, compose: COMPOSE, backupEveryMs: HOUR_MS };
  const alarms = createAlarms({ store, clock, log, freeBytes, ...given });
  const beat = { pid: 1, started: '', boot: 1 };
  for (const role of ['receive', 'run', 'keep']) await store.processes.beat({ role, ...beat }, clock.time);
  await alarms.step();
  await make(ops);
  clock.time += laterMs;
  const lives = laterMs === 0 ? ['receive', 'keep'] : ['receive', 'run', 'keep'];
  if (laterMs === 0) clock.time += 20_000;
  for (const role of lives) await store.processes.beat({ role, ...beat }, clock.time);
  await alarms.step();
  const detail = alarms.up().find((alarm) => alarm.name === name)?.detail ?? '';
  expect(detail).toMatch(/\w+ \w+/);
  let lists = 0;
  for (const command of commandsIn(detail)) lists += await holds(ops, command, detail);
  if (detail.includes('<key>')) expect(lists, 'a list tells which key').toBeGreaterThan(0);
});

/** The words after each `npx kit`: the command, its argument and its options. */
function commandsIn(detail: string): string[][] {
  return [
    ...detail.matchAll(
      /npx kit ([a-z]+)((?: (?:--[a-z]+(?: (?:dead|ready|[a-z]+\b(?=[ ;,)])))?|[ci]:\S+|\d+|<key>))*)/g,
    ),
  ].map(([, command = '', rest = '']) => [command, ...rest.trim().split(' ').filter(Boolean)]);
}

/** The number of rows in the list that the command prints; 0 for a command that prints no list. */
async function holds(ops: Ops, [command = '', ...args]: string[], detail: string): Promise<number> {
  expect([...Object.keys(LISTS), ...CHANGES, ...LOOKS, 'explain'], detail).toContain(command);
  expect(() => readFileSync(`src/cli/commands/${command}.ts`)).not.toThrow();
  if (CHANGES.includes(command) || LOOKS.includes(command) || args.includes('<key>')) return 0;
  const said = await kit(ops, command, ...args.filter((arg) => !/^(all|shows|lists)$/.test(arg)), '--json');
  const found = JSON.parse(said) as Record<string, unknown[]>;
  if (command === 'explain') return 0;
  const rows = found[args.includes('--groups') ? 'groups' : (LISTS[command] ?? '')] ?? [];
  expect(rows.length, `npx kit ${command} ${args.join(' ')}`).toBeGreaterThan(0);
  return rows.length;
}

function kit(ops: Ops, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${ops.path}`, PORT: '1' };
  return new Promise((done, fail) => {
    execFile(process.execPath, ['src/cli/kit.js', ...args], { env, maxBuffer: 1e9 }, (error, out, err) =>
      error ? fail(new Error(`npx kit ${args.join(' ')}: ${err}`)) : done(out),
    );
  });
}
