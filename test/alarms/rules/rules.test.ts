// Tables of observations: which alarms fire, at which level, and with which text.
import { expect, test } from 'vitest';
import type { Cursor } from '../../../src/wire/cursor.ts';
import { KEEP_RULES } from '../../../src/alarms/rules/index.ts';
import { NOTHING_SEEN, type Observation } from '../../../src/alarms/rules/observation.ts';
import { evaluate } from '../../../src/alarms/rules/rule.ts';
import { FIRST_RETRIES_MS } from '../../../src/receive/bad-signatures.ts';
import type { Instance } from '../../../src/store/processes.ts';
import type { Gap, Status } from '../../../src/store/read.ts';
import { INSTANCES } from '../../admin/harness.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const MB = 1024 ** 2;
const GAP = { id: 7, after: '10', upTo: '20', reason: 'expired' } as Gap;

const [leader, standby, gone] = INSTANCES as [Instance, Instance, Instance];
const HAS = { ...leader, since: '2026-01-01' };
const LACKS = { ...standby, handlers: [] };
const LOST = { ...gone, lostAt: '2026-01-02' };

const { status: unread } = NOTHING_SEEN;
const calm: Status = {
  ...unread,
  events: 10,
  tasks: { ...unread.tasks, done: 10 },
  reconcile: { ...unread.reconcile, state: 'idle' },
};
const seen = (
  status: Partial<Status> = {},
  recent: Record<string, number> = {},
  more: Partial<Observation> = {},
): Observation => ({
  ...NOTHING_SEEN,
  now: NOW,
  status: { ...calm, ...status },
  recent,
  gap: status.gaps ? GAP : null,
  ...more,
});
const names = (given: Observation): string[] => [...evaluate(KEEP_RULES, given).keys()].toSorted();
const words = (name: string, given: Observation): string => evaluate(KEEP_RULES, given).get(name)?.detail ?? '';
const levelOf = (name: string, given: Observation): number => evaluate(KEEP_RULES, given).get(name)?.level ?? 0;

const retries = (retry: number, done: number) => ({ 'attempts.retry.answer': retry, 'attempts.done.answer': done });
const stopped = {
  state: 'stopped',
  since: null,
  progress: null,
  lastAt: null,
  reason: 'ReplayEvents: 401 UNAUTHENTICATED',
  recovered: 0,
} as const;

const HOUR_MS = 3_600_000;
const paused = (hours: number) => ({ at: NOW - hours * HOUR_MS, reason: null });
const backups = (hours: number, failures = 0): Observation['backups'] => ({
  dueMs: 49 * HOUR_MS,
  ageMs: hours * HOUR_MS,
  last: { at: NOW, verifiedAt: NOW - hours * HOUR_MS, file: '/b/events.db', bytes: 1, failures, error: null },
});

test('replay_blind names forged events before the rights of the key, and conflict names them too', () => {
  const blind = words('replay_blind', seen({}, { unseen: 2 }, { blind: ['MessageReceived'] }));
  expect(blind).toMatch(/npx kit events --unseen.*forged.*secret has leaked.*API_KEY sees less/);
  expect(words('conflict', seen({}, { conflicts: 1 }))).toMatch(/forged.*secret has leaked/);
});

test.each<[string, Observation, string[]]>([
  ['nothing, in calm', seen(), []],
  ['nothing, at two failures in a row', seen({ failureRun: 2 }), []],
  ['failure_run, at three in a row', seen({ failureRun: 3 }), ['failure_run']],
  ['nothing, when two deliveries lay outside the window', seen({}, { 'refused.clock_skew': 2 }), []],
  ['clock_skew, when three did', seen({}, { 'refused.clock_skew': 3 }), ['clock_skew']],
  ['nothing, when strangers send forged deliveries', seen({}, { 'refused.bad_signature': 5_000 }), []],
  ['body_limit, at the first body that is too large', seen({}, { 'refused.body_limit': 1 }), ['body_limit']],
  ['nothing, when there were too many connections for a moment', seen({}, { connections_full: 4 }), []],
  ['E84: connections, when that lasted', seen({}, { connections_full: 5 }), ['connections']],
  ['conflict', seen({}, { conflicts: 1 }), ['conflict']],
  ['E5: poisoned', seen({}, { poisoned: 2 }), ['poisoned']],
  ['cursor_regression', seen({}, { regressions: 1 }), ['cursor_regression']],
  ['nothing, when run died twice', seen({}, { run_crashes: 2 }), []],
  ['run_crashing, when it died three times', seen({}, { run_crashes: 3 }), ['run_crashing']],
  ['nothing, while instances are updated', seen({}, {}, { differMs: 60_000 }), []],
  ['handlers_differ, after a minute', seen({ instances: [HAS, LACKS] }, {}, { differMs: 60_001 }), ['handlers_differ']],
  ['instance_lost', seen({ instances: [HAS, LOST] }), ['instance_lost']],
  ['lane_fault', seen({}, { 'lane_faults.answer': 1 }), ['lane_fault']],
  ['dead_letters', seen({ tasks: { ...calm.tasks, dead: 1 } }), ['dead_letters']],
  ['gap_open', seen({ gaps: 1 }), ['gap_open']],
  ['reconcile_stopped', seen({ reconcile: stopped }), ['reconcile_stopped']],
  ['nothing, where recovery is off on purpose', seen({ reconcile: { ...stopped, state: 'off' } }), []],
  ['nothing, with 513 MB left', seen({}, {}, { freeBytes: 513 * MB }), []],
  ['disk_low, with 511 MB left', seen({}, {}, { freeBytes: 511 * MB }), ['disk_low']],
  ['nothing, while a task waits long and none fails', seen({ oldestReadySeconds: 4_000 }), []],
  ['nothing, where attempts fail and none waits long', seen({ oldestReadySeconds: 60 }, retries(40, 2)), []],
  ['nothing, where most go well', seen({ oldestReadySeconds: 4_000 }, retries(40, 900)), []],
  ['handler_failing, as tasks wait', seen({ oldestReadySeconds: 301 }, retries(40, 2)), ['handler_failing']],
  ['nothing, while a handler is paused for less than a day', seen({}, {}, { paused: { answer: paused(23) } }), []],
  ['handler_paused, after a day', seen({}, {}, { paused: { answer: paused(24) } }), ['handler_paused']],
  ['nothing, where backups are not scheduled', seen({}, {}, { backups: null }), []],
  ['nothing, before the first backup is late', seen({}, {}, { backups: backups(49) }), []],
  ['backup_old, when it is', seen({}, {}, { backups: backups(50) }), ['backup_old']],
  ['nothing, when one backup failed', seen({}, {}, { backups: backups(1, 1) }), []],
  ['backup_old, when two failed', seen({}, {}, { backups: backups(1, 2) }), ['backup_old']],
  ['several at once', seen({ gaps: 2, failureRun: 14 }, {}, { freeBytes: 0 }), ['disk_low', 'failure_run', 'gap_open']],
])('%s', (_, given, expected) => {
  expect(names(given)).toEqual(expected);
  for (const name of expected) expect(words(name, given), 'it says what is the matter').toMatch(/\w+ \w+/);
});

const growth = (failed: number, done: number) => ({ 'attempts.retry.answer': failed, 'attempts.done.answer': done });
test.each<[string, Observation['attempts'], boolean]>([
  ['all of five attempts since a start', { sinceBoot: growth(5, 0), thirds: [] }, true],
  ['half of many since a start', { sinceBoot: growth(400, 400), thirds: [] }, true],
  ['four since a start', { sinceBoot: growth(4, 0), thirds: [] }, false],
  ['a third since a start', { sinceBoot: growth(100, 200), thirds: [] }, false],
  ['2.5 % for half an hour', { sinceBoot: {}, thirds: [growth(5, 195), growth(4, 196), growth(6, 194)] }, true],
  ['one outage in half an hour', { sinceBoot: {}, thirds: [growth(0, 200), growth(90, 110), growth(0, 200)] }, false],
  ['1 % for half an hour', { sinceBoot: {}, thirds: [growth(10, 990), growth(10, 990), growth(10, 990)] }, false],
  ['nine in half an hour', { sinceBoot: {}, thirds: [growth(3, 9), growth(3, 9), growth(3, 9)] }, false],
])('E48: handler_failing by share: %s', (_, attempts, fires) => {
  const given = seen({}, {}, { attempts });
  expect(names(given)).toEqual(fires ? ['handler_failing'] : []);
  if (fires) expect(words('handler_failing', given)).toMatch(/^attempts of answer fail \(\d+ of \d+ (since|in) /);
});

test('a share of failures around a half raises handler_failing once, until most attempts succeed', () => {
  const alarms = [{ name: 'handler_failing', since: '', detail: 'before' }];
  const young = (failed: number, status = {}) =>
    names(seen(status, {}, { attempts: { sinceBoot: growth(failed, 20 - failed), thirds: [] } }));
  expect(young(9)).toEqual([]);
  expect(young(9, { alarms })).toEqual(['handler_failing']);
  expect(young(2, { alarms })).toEqual([]);
  expect(names(seen({ alarms }, retries(4, 6)))).toEqual(['handler_failing']);
  expect(names(seen({ alarms }, retries(1, 9)))).toEqual([]);
});

test('E48: handler_failing goes on while most attempts fail, though no task waits for long', () => {
  const alarms = [{ name: 'handler_failing', since: '', detail: 'before' }];
  expect(names(seen({ alarms }, retries(9, 2)))).toEqual(['handler_failing']);
  expect(names(seen({ alarms }, retries(2, 9)))).toEqual([]);
});

test('E48: lane_stuck names the handler, the event, the task and how many wait', () => {
  const stuck = [1, 2].map((task) => ({ task, handler: 'answer', key: `c:${task}`, since: NOW - 960_000, behind: 7 }));
  const given = seen({}, {}, { stuck });
  expect(names(given)).toEqual(['lane_stuck']);
  expect(words('lane_stuck', given)).toMatch(
    /^a lane of answer is stuck: its task 1 on event c:1 fails since 2026-01-01T11:44:00.000Z, and 7 tasks wait behind it; so are 1 other lanes\..*npx kit discard 1 --reason/,
  );
});

test('handler_paused names each pause, its reason, and the command that ends it', () => {
  const pauses = { answer: { at: NOW - 25 * HOUR_MS, reason: 'answers twice' }, '*': paused(30) };
  expect(words('handler_paused', seen({}, {}, { paused: pauses }))).toMatch(
    /^handler answer is paused since 2025-12-31T11:00:00.000Z \(answers twice\): npx kit resume answer; every handler is paused since .*: npx kit resume --all\./,
  );
});

test('a paused handler does not raise handler_failing, and its pause ends the alarm', () => {
  const stuck = { oldestReadySeconds: 9_000 };
  const alarms = [{ name: 'handler_failing', since: '', detail: 'before' }];
  const attempts = { sinceBoot: growth(9, 0), thirds: [] };
  for (const name of ['answer', '*']) {
    const pauses = { paused: { [name]: paused(1) } };
    expect(names(seen(stuck, retries(40, 2), pauses))).toEqual([]);
    expect(names(seen({ alarms }, retries(40, 2), { ...pauses, attempts }))).toEqual([]);
  }
  expect(names(seen(stuck, retries(40, 2), { paused: { other: paused(1) } }))).toEqual(['handler_failing']);
});

test('backup_old says how old the newest backup is, and why there is no newer one', () => {
  const last = { at: NOW, verifiedAt: null, file: null, bytes: null, failures: 2, error: 'BACKUP_DIR /b is full' };
  const given = seen({}, {}, { backups: { dueMs: 1, ageMs: 0, last } });
  expect(words('backup_old', given)).toMatch(
    /^there is no backup yet\. BACKUP_DIR \/b is full\. .*npx kit backup FILE/,
  );
  expect(words('backup_old', seen({}, {}, { backups: backups(50) }))).toMatch(
    /^the newest backup is of .*events\.db\)/,
  );
});

test('handler_failing names the handler, and stays up until its tasks go on', () => {
  const detail = words('handler_failing', seen({ oldestReadySeconds: 301 }, retries(9, 0)));
  expect(detail).toContain('attempts of answer fail');
  const alarms = [{ name: 'handler_failing', since: '', detail }];
  expect(words('handler_failing', seen({ oldestReadySeconds: 9_000, alarms }))).toBe(detail);
  expect(names(seen({ oldestReadySeconds: 1, alarms }))).toEqual([]);
});

test.each([
  [
    'before 15, what to fix, and what is at stake',
    3,
    /3 deliveries .* \(df -h\).*; at 15 in a row the service switches/,
  ],
  [
    'from 15 on, that the webhook is off, and what to do there',
    31,
    /31 deliveries .*has switched the webhook off: enable it there as well; replay/,
  ],
])('failure_run says, %s', (_, failureRun, expected) => {
  const failures = { ...calm.failures, causes: { store: failureRun } };
  expect(words('failure_run', seen({ failureRun, failures, watermark: '5' as Cursor }))).toMatch(expected);
});

test('failure_run does not promise that replay brings what was refused before the first good delivery', () => {
  const failures = { ...calm.failures, causes: { store: 31 } };
  expect(words('failure_run', seen({ failureRun: 31, failures }))).toMatch(/what it missed stays missing/);
});

test('E43: failure_run does not say that the webhook is off, if all were refused unread: strangers can send headers', () => {
  const failures = { ...calm.failures, causes: { content_encoding: 12, body_dropped: 4 } };
  const said = words('failure_run', seen({ failureRun: 16, failures }));
  expect(said).toMatch(/^16 requests .*were refused unread.*If the service sent them.*If strangers sent them/);
  expect(said).not.toMatch(/has switched/);
  const one = { ...calm.failures, causes: { content_encoding: 12, store: 4 } };
  expect(words('failure_run', seen({ failureRun: 16, failures: one }))).toMatch(/has switched the webhook off/);
});

test('failure_run says that the clock may be wrong by more than a day, if timestamps are that far off', () => {
  const failures = { ...calm.failures, causes: { far_timestamp: 15 } };
  const said = words('failure_run', seen({ failureRun: 15, failures }));
  expect(said).toMatch(
    /refused unread \(15 × far_timestamp\): the clock of this machine may be wrong by more than a day/,
  );
});

test.each<[string, number, number, RegExp]>([
  [
    'over',
    15,
    0,
    /^15 .* 2xx\. Deliveries succeed again\. At 15 .*off: if it is still off, enable it at the service\./,
  ],
  [
    'over, of unknown length',
    0,
    0,
    /^3 or more .* Deliveries succeed again\. At 15 .*if it is still off, enable it at/,
  ],
  ['over, while the newest fail again', 15, 2, /^15 .* 2xx\. Later deliveries succeeded, the newest failed again\./],
])('after a failure run that is %s, the text says what to do', (_, worstRun, failureRun, expected) => {
  expect(words('failure_run', seen({ failureRun }, { failure_runs: 1 }, { worstRun }))).toMatch(expected);
});

test('clock_skew says by how much and in which direction the clock is wrong, if that is known', () => {
  const detail = (skewSeconds: number | null) =>
    words('clock_skew', seen({ failureRun: 3 }, { 'refused.clock_skew': 3 }, { skewSeconds }));
  expect(detail(-412)).toContain('the clock of this machine seems 412 s ahead of the service');
  expect(detail(400)).toContain('seems 400 s behind the service');
  expect(detail(null), 'unknown').toContain('the clock of this machine seems wrong');
});

test('clock_skew says that nothing is left to do once deliveries succeed again', () => {
  const said = words('clock_skew', seen({ failureRun: 0 }, { 'refused.clock_skew': 3 }, { skewSeconds: -600 }));
  expect(said).toMatch(/was 600 s ahead of the service\. Deliveries succeed again: nothing is left to do/);
});

test('gap_open names the newest open gap, and the command that closes it', () => {
  const close = 'npx kit gaps close 7 --reason "…"';
  expect(words('gap_open', seen({ gaps: 1 }))).toMatch(/^gap 7: .* after cursor 10 up to 20 \(expired\)/);
  expect(words('gap_open', seen({ gaps: 1 }))).toContain(close);
  expect(words('gap_open', seen({ gaps: 3 }))).toMatch(
    /^3 gaps are open, npx kit gaps lists them; the newest is gap 7: /,
  );
});

test('instance_lost and handlers_differ name the instances', () => {
  expect(words('instance_lost', seen({ instances: [HAS, LOST] }))).toMatch(
    /third:33 gives no sign of life since 2026-01-02/,
  );
  const given = seen({ instances: [HAS, LACKS, LOST] }, {}, { differMs: 90_000 });
  expect(words('handlers_differ', given)).toMatch(/^handler answer is not loaded by second:22\. /);
});

test('lane_fault names the handlers, disk_low says what to do', () => {
  expect(words('lane_fault', seen({}, { 'lane_faults.answer': 2, 'lane_faults.log': 0 }))).toMatch(
    /^lane of answer throws/,
  );
  expect(words('disk_low', seen({}, {}, { freeBytes: 1_000 }))).toMatch(/^nothing is left .* make room/);
});

test('the texts contain counts, and the reason why replay stopped', () => {
  expect(words('failure_run', seen({ failureRun: 14 }))).toContain('14');
  expect(words('reconcile_stopped', seen({ reconcile: stopped }))).toContain('401');
  expect(words('dead_letters', seen({ tasks: { ...calm.tasks, dead: 7 } }))).toContain('7');
});

const BAD_SINCE = '2026-01-01T00:00:00.000Z';
const refused = [{ at: BAD_SINCE, headers: 5, skewSeconds: 0, agent: 'Svc-Webhooks/1', bytes: 2 }];
const forged = (badSignatures: number) => ({
  failures: { causes: {}, badSignatures, badSince: BAD_SINCE, lastBadAt: BAD_SINCE },
});
const catchingUp = (behind: boolean): Partial<Status> => ({
  reconcile: {
    ...stopped,
    state: 'running',
    progress: { pages: 9, events: 9_000, perMinute: 900, endsAt: null, behind },
  },
});
const missing = (forMs: number) => ({
  types: [{ type: 'MessageReceived', deliveredAt: NOW - 3_600_000, missed: 3, missedSince: NOW - forMs }],
});
const silent = missing(FIRST_RETRIES_MS + 1);
test.each<[string, Observation, string[]]>([
  ['webhook_silent, as an event is missing for long', seen({}, {}, silent), ['webhook_silent']],
  ['replay_blind', seen({}, { unseen: 2 }), ['replay_blind']],
  [
    'secret_mismatch, while webhooks are silent',
    seen({ ...forged(3), lastDeliveryAt: '2026-01-01T00:00:00.000Z' }, {}, silent),
    ['secret_mismatch', 'webhook_silent'],
  ],
  ['secret_mismatch, before the first good delivery', seen(forged(3), {}, { refused }), ['secret_mismatch']],
  [
    'secret_mismatch, as soon as something has happened that no delivery brought',
    seen({ ...forged(3), lastDeliveryAt: '2026-01-01T00:00:00.000Z' }, {}, missing(11_000)),
    ['secret_mismatch'],
  ],
  [
    'nothing, while a delivery may still be on its way',
    seen({ ...forged(3), lastDeliveryAt: '2026-01-01T00:00:00.000Z' }, {}, missing(9_000)),
    [],
  ],
  ['nothing, at two forged ones', seen(forged(2)), []],
  [
    'nothing, when strangers send forged deliveries and nothing is missing',
    seen({ ...forged(500), lastDeliveryAt: '2026-01-01T00:00:00.000Z' }, {}, { refused }),
    [],
  ],
  ['reconcile_behind', seen(catchingUp(true)), ['reconcile_behind']],
  ['nothing, where a catch-up comes nearer', seen(catchingUp(false)), []],
])('%s', (_, given, expected) => {
  expect(names(given)).toEqual(expected);
});

test('webhook_silent contains the explanation', () => {
  expect(words('webhook_silent', seen({}, {}, silent))).toMatch(/^webhooks are silent\. Known: .*3 × MessageReceived/);
});

test('E44: reconcile_stopped stays after a new key, until a delivery shows that a webhook lives', () => {
  const at = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();
  const detail = words('reconcile_stopped', seen({ reconcile: stopped }));
  expect(detail).toContain('register the webhook again');
  const after = (lastDeliveryAt: string | null, said = detail) =>
    seen({ lastDeliveryAt, alarms: [{ name: 'reconcile_stopped', since: at(0), detail: said }] });
  const later = words('reconcile_stopped', after(at(-1)));
  expect(later).toMatch(/^API_KEY was refused at .*no delivery has come since.*register the webhook again/);
  expect(words('reconcile_stopped', after(at(-1), later)), 'it goes on').toBe(later);
  expect(names(after(at(1), later))).toEqual([]);
  expect(names(after(null)), 'no webhook so far').toEqual([]);
  const address = { ...stopped, reason: 'ReplayEvents: 403 FORBIDDEN (API_KEY_IP_FORBIDDEN)' };
  expect(names(after(at(-1), words('reconcile_stopped', seen({ reconcile: address }))))).toEqual([]);
});

test('replay_blind names the types', () => {
  expect(words('replay_blind', seen({}, { unseen: 2 }, { blind: ['A', 'B'] }))).toContain('(A, B)');
});

test('E41: the levels of dead letters and of free disk space', () => {
  const dead = (count: number) => levelOf('dead_letters', seen({ tasks: { ...calm.tasks, dead: count } }));
  expect([1, 9, 10, 99, 100, 999, 1_000, 1_322, 10_000].map(dead)).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 5]);
  const disk = (megabytes: number) => levelOf('disk_low', seen({}, {}, { freeBytes: megabytes * MB }));
  expect([511, 256, 255, 127, 2, 1, 0.5, 0].map(disk)).toEqual([1, 1, 2, 3, 8, 9, 10, 10]);
});
