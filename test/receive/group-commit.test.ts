// The group commit under load and under faults. Deliveries that arrive together commit together. If the store is
// locked, full or missing, deliveries wait and then get 503, and nothing is lost (hazards C3, F1, F3, F6, F11).
import { renameSync, unlinkSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  createGroupCommit,
  DEADLINE_MS,
  Unavailable,
  type GroupCommit,
  type DeliveryStore,
} from '../../src/receive/group-commit.ts';
import type { Accepted, Batch } from '../../src/store/ingest.ts';
import { StoreError, Unsynced } from '../../src/store/store.ts';
import { readDelivery, type Reading } from '../../src/wire/event.ts';
import {
  bodyOf,
  createClock,
  createStoreFile,
  deliver,
  kept,
  rows,
  send,
  startReceiver,
  T0,
  until,
  type Receiver,
  type SetClock,
  type StoreFile,
} from './harness.ts';

/** The real store. It records its batches, throws a fault that tests set, and waits for a gate before a transaction. */
interface Watched extends DeliveryStore {
  batches: Batch[];
  fault: Error | undefined;
  gate: Promise<void> | undefined;
}

function watch(store: DeliveryStore): Watched {
  const watched: Watched = {
    ...store,
    batches: [],
    fault: undefined,
    gate: undefined,
    async accept(batch) {
      watched.batches.push(batch);
      const { fault } = watched;
      await watched.gate;
      if (fault) throw fault;
      return store.accept(batch);
    },
    async note(counts, state) {
      if (watched.fault) throw watched.fault;
      return store.note(counts, state);
    },
  };
  return watched;
}

interface Bench {
  file: StoreFile;
  store: Watched;
  clock: SetClock;
  groupCommit: GroupCommit;
  faults: StoreError[];
  commits: () => number;
}

function setUp(): Bench {
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const store = watch({ ...file.store.ingest, note: (...given) => file.store.state.note(...given) });
  const clock = createClock();
  const faults: StoreError[] = [];
  let commits = 0;
  const groupCommit = createGroupCommit({
    store,
    clock,
    onCommit: () => void commits++,
    onFault: (error) => void faults.push(error),
  });
  return { file, store, clock, groupCommit, faults, commits: () => commits };
}

function reading(cursor: number): Reading {
  return readDelivery(bodyOf({ cursor: String(cursor) }));
}

function verdicts(accepted: Accepted[]): string[] {
  return accepted.map(({ verdict }) => verdict);
}

/** Waits until the commit was tried this many more times without success. */
async function tried(store: Watched, times = 5): Promise<void> {
  const before = store.batches.length;
  await until(() => store.batches.length >= before + times, 'the store to be tried');
}

/** Waits until the commit loop has ended, because until then a probe does nothing. */
function settled(): Promise<void> {
  return new Promise(setImmediate);
}

/** Calls `recover` until the store is ready. A refused delivery may keep the commit loop at work for a moment. */
async function untilReady(groupCommit: GroupCommit, recover: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + 10_000;
  do {
    await recover();
    await settled();
  } while (!groupCommit.ready() && performance.now() < end);
  expect(groupCommit.ready()).toBe(true);
}

const full = (): StoreError =>
  new StoreError('unwritable', 'the store cannot be used: SQLITE_FULL: database or disk is full');

describe('deliveries that arrive together', () => {
  test('are committed together, in their order of arrival', async () => {
    const { file, store, groupCommit, commits } = setUp();
    const accepted = await Promise.all(Array.from({ length: 100 }, (_, n) => groupCommit.accept(reading(n + 1))));
    expect(verdicts(accepted)).toEqual(Array(100).fill('new'));
    expect([store.batches.length, commits()]).toEqual([1, 1]);
    expect(kept(file).events.map(({ cursor }) => Number(cursor))).toEqual(Array.from({ length: 100 }, (_, n) => n + 1));
  });

  test('in large numbers need few transactions, each of limited size', async () => {
    const { file, store, groupCommit } = setUp();
    await Promise.all(Array.from({ length: 2_000 }, (_, n) => groupCommit.accept(reading(n + 1))));
    expect(store.batches.length).toBe(8);
    expect(Math.max(...store.batches.map(({ readings }) => readings.length))).toBe(256);
    expect(rows(file)).toBe(2_000);
  });

  test('of many bytes need transactions of limited size, which a slow network carries in time', async () => {
    const { store, groupCommit } = setUp();
    const large = (cursor: number, bytes: number): Reading =>
      readDelivery(bodyOf({ cursor: String(cursor), data: { MessageReceived: { body: 'x'.repeat(bytes) } } }));
    await Promise.all(Array.from({ length: 7 }, (_, n) => groupCommit.accept(large(n + 1, 1_500_000))));
    await Promise.all([groupCommit.accept(large(8, 6_000_000)), groupCommit.accept(reading(9))]);
    expect(store.batches.map(({ readings }) => readings.length)).toEqual([2, 2, 2, 1, 1, 1]);
  });

  test('each get a verdict of their own', async () => {
    const { store, groupCommit } = setUp();
    const readings = [
      reading(1),
      reading(1),
      readDelivery(Buffer.from('{')),
      reading(2),
      readDelivery(Buffer.from('{')),
    ];
    const accepted = await Promise.all(readings.map((one) => groupCommit.accept(one)));
    expect(verdicts(accepted)).toEqual(['new', 'duplicate', 'quarantined', 'new', 'quarantined']);
    expect(store.batches).toHaveLength(1);
  });

  test('during a commit join the next one', async () => {
    const { store, groupCommit } = setUp();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    const first = groupCommit.accept(reading(1));
    await until(() => store.batches.length === 1);
    const second = [groupCommit.accept(reading(2)), groupCommit.accept(reading(3))];
    gate.resolve();
    expect(verdicts(await Promise.all([first, ...second]))).toEqual(['new', 'new', 'new']);
    expect(store.batches.map(({ readings }) => readings.length)).toEqual([1, 2]);
  });

  test('can all be read by another process when the first of them is answered', async () => {
    const { file, groupCommit } = setUp();
    const others = [2, 3, 4].map((n) => groupCommit.accept(reading(n)));
    await groupCommit.accept(reading(1));
    expect(rows(file)).toBe(4);
    await Promise.all(others);
  });
});

test.each([false, true])(
  'state that is set while a commit fails replaces the older state (probed: %s)',
  async (probed) => {
    const { file, store, groupCommit } = setUp();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    store.fault = full();
    groupCommit.setState('failure_run', 1);
    const accepted = groupCommit.accept(reading(1));
    await until(() => store.batches.length === 1);
    store.fault = undefined;
    groupCommit.setState('failure_run', 2);
    if (probed) await groupCommit.probe();
    gate.resolve();
    await accepted;
    expect((await file.store.state.books()).failureRun).toBe(2);
  },
);

describe('a counter', () => {
  test('is written once: with the next commit, or by the probe if there is no commit', async () => {
    const { file, store, groupCommit } = setUp();
    groupCommit.count({ 'refused.no_signature': 2 });
    groupCommit.count({ 'refused.no_signature': 1, unseen_failures: 1 });
    groupCommit.setState('failures', '{}');
    await groupCommit.accept(reading(1));
    await settled();
    expect(store.batches[0]).toMatchObject({
      counts: { 'refused.no_signature': 3, unseen_failures: 1 },
      state: { failures: '{}' },
    });
    groupCommit.count({ 'refused.method': 1 });
    groupCommit.setState('failure_run', 3);
    await groupCommit.probe();
    await groupCommit.probe();
    expect(await file.store.read.counters()).toMatchObject({
      'refused.no_signature': 3,
      unseen_failures: 1,
      'refused.method': 1,
    });
    expect((await file.store.read.status(0)).failureRun).toBe(3);
  });

  test('is neither lost nor counted twice if commits and probes fail', async () => {
    const { file, store, groupCommit } = setUp();
    groupCommit.count({ 'refused.method': 1 });
    groupCommit.setState('failure_run', 1);
    store.fault = full();
    await groupCommit.probe();
    groupCommit.setState('failure_run', 2);
    const accepting = groupCommit.accept(reading(1));
    groupCommit.count({ 'refused.method': 1 });
    await tried(store);
    store.fault = undefined;
    await accepting;
    await settled();
    expect(store.batches.at(-1)).toMatchObject({ counts: { 'refused.method': 2 }, state: { failure_run: 2 } });
    expect(await file.store.read.counters()).toMatchObject({ 'refused.method': 2 });
    expect((await file.store.read.status(0)).failureRun).toBe(2);
  });
});

describe('a store that is locked by another process', () => {
  test('F6: for a while only delays deliveries, and other work goes on between two tries', async () => {
    const { file, store, groupCommit, faults } = setUp();
    await groupCommit.accept(reading(1));
    const release = file.lock();
    const waiting = Array.from({ length: 300 }, (_, n) => groupCommit.accept(reading(n + 2)));
    await tried(store, 20);
    release();
    expect(new Set(verdicts(await Promise.all(waiting)))).toEqual(new Set(['new']));
    expect(groupCommit.ready()).toBe(true);
    expect(faults).toEqual([]);
    expect(rows(file)).toBe(301);
  });

  test('takes deliveries that arrive meanwhile into the same group', async () => {
    const { file, store, groupCommit } = setUp();
    const release = file.lock();
    const first = groupCommit.accept(reading(1));
    await tried(store);
    const second = groupCommit.accept(reading(2));
    await until(() => store.batches.at(-1)?.readings.length === 2);
    release();
    await Promise.all([first, second]);
    expect(store.batches.at(-1)?.readings).toHaveLength(2);
  });

  test('F6: is retried for as long as a delivery can wait, and no longer', async () => {
    const { file, store, clock, groupCommit } = setUp();
    const release = file.lock();
    const first = groupCommit.accept(reading(1));
    const refused = expect(first).rejects.toThrow(Unavailable);
    await tried(store);
    clock.at += DEADLINE_MS - 1;
    const second = groupCommit.accept(reading(2));
    await tried(store);
    clock.at += 1;
    await refused;
    release();
    expect(verdicts([await second])).toEqual(['new']);
    expect(kept(file).events.map(({ id }) => id)).toEqual(['evt_2']);
  });

  test('is named as the cause of the refusal', async () => {
    const { file, store, clock, groupCommit } = setUp();
    const release = file.lock();
    const refused = expect(groupCommit.accept(reading(1))).rejects.toMatchObject({
      name: 'Unavailable',
      cause: { code: 'busy' },
    });
    await tried(store);
    clock.at += DEADLINE_MS;
    await refused;
    release();
  });

  test('for more than a second is not ready, and is ready again with the next commit or probe', async () => {
    const { file, store, clock, groupCommit, faults } = setUp();
    for (const recover of [() => groupCommit.accept(reading(9)), () => groupCommit.probe()]) {
      const release = file.lock();
      const refused = expect(groupCommit.accept(reading(1))).rejects.toThrow(Unavailable);
      await tried(store);
      clock.at += 999;
      expect(groupCommit.ready()).toBe(true);
      clock.at += 1;
      expect(groupCommit.ready()).toBe(false);
      clock.at += DEADLINE_MS;
      await refused;
      release();
      expect(groupCommit.ready()).toBe(false);
      await untilReady(groupCommit, recover);
    }
    expect(faults.at(-1)?.code).toBe('busy');
  });

  test('is detected by the probe if there are no deliveries', async () => {
    const { file, clock, groupCommit } = setUp();
    const release = file.lock();
    await groupCommit.probe();
    clock.at += 2_000;
    await groupCommit.probe();
    expect(groupCommit.ready()).toBe(false);
    release();
    await groupCommit.probe();
    expect(groupCommit.ready()).toBe(true);
  });
});

describe('a store that cannot be written', () => {
  test('F1: refuses deliveries that waited too long, reports the fault, and accepts again once there is space', async () => {
    const { file, store, clock, groupCommit, faults } = setUp();
    store.fault = full();
    const refused = expect(groupCommit.accept(reading(1))).rejects.toThrow(Unavailable);
    await tried(store);
    expect(faults[0]?.code).toBe('unwritable');
    clock.at += DEADLINE_MS;
    await refused;
    expect(groupCommit.ready()).toBe(false);
    store.fault = undefined;
    expect(verdicts([await groupCommit.accept(reading(1))])).toEqual(['new']);
    expect(groupCommit.ready()).toBe(true);
    expect(rows(file)).toBe(1);
  });

  test('F3: but has written the event before it failed, finds a duplicate at the retry', async () => {
    const { file, store, groupCommit } = setUp();
    let first = true;
    store.accept = async (batch) => {
      const results = await file.store.ingest.accept(batch);
      if (!first) return results;
      first = false;
      throw new StoreError('unwritable', 'the store cannot be used: SQLITE_IOERR_FSYNC');
    };
    expect(verdicts([await groupCommit.accept(reading(1))])).toEqual(['duplicate']);
    expect(rows(file)).toBe(1);
  });
});

describe('a store file that was moved away', () => {
  test('E12: accepts no delivery from then on, not even when the file is back, until the kit is restarted', async () => {
    const { file, groupCommit, faults } = setUp();
    await groupCommit.accept(reading(1));
    renameSync(file.path, `${file.path}.away`);
    await expect(groupCommit.accept(reading(2))).rejects.toMatchObject({
      name: 'Unavailable',
      cause: { code: 'replaced' },
    });
    expect([groupCommit.ready(), groupCommit.replaced()]).toEqual([false, true]);
    renameSync(`${file.path}.away`, file.path);
    await expect(groupCommit.accept(reading(3))).rejects.toThrow(Unavailable);
    await groupCommit.probe();
    expect(groupCommit.ready()).toBe(false);
    expect(new Set(faults.map(({ code }) => code))).toEqual(new Set(['replaced']));
    expect(kept(file).events.map(({ id }) => id)).toEqual(['evt_1']);
  });

  test('E12: is detected by the probe if there are no deliveries', async () => {
    const { file, groupCommit } = setUp();
    await groupCommit.accept(reading(1));
    await settled();
    renameSync(file.path, `${file.path}.away`);
    await groupCommit.probe();
    expect(groupCommit.replaced()).toBe(true);
  });
});

describe('a sync that fails', () => {
  /** Commits succeed, but their sync fails until `fix` is called. */
  function failSync(file: StoreFile, store: Watched): { fix: () => void; syncs: () => number } {
    let failing = true;
    let syncs = 0;
    const accept = store.accept.bind(store);
    store.accept = async (batch) => {
      const accepted = await accept(batch);
      if (failing) throw new Unsynced(new StoreError('unwritable', 'cannot be synced'), accepted);
      return accepted;
    };
    store.sync = async () => {
      syncs++;
      if (failing) throw new StoreError('unwritable', 'cannot be synced');
      return file.store.ingest.sync();
    };
    return { fix: () => void (failing = false), syncs: () => syncs };
  }

  test('E11: is retried without the commit: the delivery is accepted once, and nothing is counted twice', async () => {
    const { file, store, groupCommit, faults } = setUp();
    const { fix, syncs } = failSync(file, store);
    groupCommit.count({ 'refused.method': 1 });
    const first = groupCommit.accept(reading(1));
    await until(() => syncs() > 3);
    const second = groupCommit.accept(reading(2));
    fix();
    expect(verdicts(await Promise.all([first, second]))).toEqual(['new', 'new']);
    expect(store.batches.map(({ readings }) => readings.length)).toEqual([1, 1]);
    expect(await file.store.read.counters()).toEqual({ events: 2, accepted: 2, 'refused.method': 1 });
    expect(faults.every(({ code }) => code === 'unwritable')).toBe(true);
  });

  test('E11: is retried for as long as a delivery can wait; then the delivery is refused once, and the next one is accepted', async () => {
    const { file, store, clock, groupCommit } = setUp();
    const { fix, syncs } = failSync(file, store);
    let refusals = 0;
    const refused = groupCommit.accept(reading(1)).catch(() => refusals++);
    await until(() => syncs() > 3);
    clock.at += DEADLINE_MS;
    await refused;
    expect(groupCommit.ready()).toBe(false);
    fix();
    expect(verdicts([await groupCommit.accept(reading(2))])).toEqual(['new']);
    expect(refusals).toBe(1);
    expect(await file.store.read.counters()).toEqual({ events: 2, accepted: 2 });
  });

  test('on a disk that hangs refuses the delivery in time, and is not ready', async () => {
    const { store, clock, groupCommit } = setUp();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    const refused = expect(groupCommit.accept(reading(1))).rejects.toThrow(Unavailable);
    await until(() => store.batches.length === 1);
    clock.at += DEADLINE_MS;
    await refused;
    expect(groupCommit.ready()).toBe(false);
    gate.resolve();
    await until(() => groupCommit.ready());
  });
});

describe('E9: a step of the wall clock', () => {
  const HOUR = 3_600_000;
  test.each([-60 * 24 * HOUR, -24 * HOUR, -HOUR, HOUR, 24 * HOUR, 60 * 24 * HOUR])(
    'of %d ms, once or repeatedly, does not change how long a delivery waits',
    async (step) => {
      const { file, store, clock, groupCommit } = setUp();
      const elapsed = { ms: 0 };
      const stepping = { ...clock, now: () => T0 + steps * step, monotonic: () => elapsed.ms };
      let steps = 0;
      const stepped = createGroupCommit({ store, clock: stepping });
      const release = file.lock();
      let refused = 0;
      const first = stepped.accept(reading(1)).catch(() => void refused++);
      for (steps = 1; steps < 4; steps++) await tried(store);
      expect([refused, stepped.ready()]).toEqual([0, true]);
      elapsed.ms = 1_000;
      expect(stepped.ready()).toBe(false);
      elapsed.ms = DEADLINE_MS - 1;
      await tried(store);
      expect(refused).toBe(0);
      elapsed.ms = DEADLINE_MS;
      await first;
      expect(refused).toBe(1);
      release();
      expect(verdicts([await stepped.accept(reading(2))])).toEqual(['new']);
      expect(groupCommit.ready()).toBe(true);
    },
  );
});

describe('over HTTP', () => {
  /** Sends a delivery, lets it wait, and sets the clock forward until it is refused. */
  async function refused(receiver: Receiver, waits: () => boolean, cursor: string): Promise<number> {
    const answer = deliver(receiver.port, bodyOf({ cursor }));
    await until(waits);
    receiver.clock.at += DEADLINE_MS;
    return answer;
  }

  async function readiness(receiver: Receiver): Promise<number> {
    return (await send(receiver.port, '', { method: 'GET', path: '/readyz' })).status;
  }

  const noted = (receiver: Receiver, cause: string): boolean => receiver.lines.some((line) => line['cause'] === cause);

  test('F6: a lock that lasts causes a 503, which counts as a failed delivery, and /readyz shows it', async () => {
    let store: Watched | undefined;
    const receiver = await startReceiver({ wrap: (real) => (store = watch(real)) });
    const release = receiver.lock();
    expect(await refused(receiver, () => (store?.batches.length ?? 0) > 3, '1')).toBe(503);
    expect(await readiness(receiver)).toBe(503);
    expect((await send(receiver.port, '', { method: 'GET', path: '/livez' })).status).toBe(200);
    expect(receiver.answered).toEqual([{ status: 503, cause: 'store' }]);
    expect(noted(receiver, 'store')).toBe(true);
    release();
    expect(await deliver(receiver.port, bodyOf())).toBe(204);
    expect(await readiness(receiver)).toBe(200);
    expect(receiver.answered.at(-1)).toEqual({ status: 204, cause: 'new' });
    expect(await receiver.counters()).toMatchObject({ accepted: 1, 'refused.store': 1 });
  });

  test('F6: a lock that is released in time causes no 503', async () => {
    let store: Watched | undefined;
    const receiver = await startReceiver({ wrap: (real) => (store = watch(real)) });
    const release = receiver.lock();
    const answers = Promise.all([1, 2, 3].map((n) => deliver(receiver.port, bodyOf({ cursor: String(n) }))));
    await until(() => (store?.batches.length ?? 0) > 10);
    release();
    expect(await answers).toEqual([204, 204, 204]);
  });

  test('F1: a full disk causes a 503 and a log line, until there is space', async () => {
    let store: Watched | undefined;
    const receiver = await startReceiver({ wrap: (real) => (store = watch(real)) });
    if (!store) throw new Error('no store');
    store.fault = full();
    expect(await refused(receiver, () => noted(receiver, 'store_unwritable'), '1')).toBe(503);
    expect(await readiness(receiver)).toBe(503);
    store.fault = undefined;
    // A probe does nothing while the failed commit still ends.
    for (let probes = 0; (await readiness(receiver)) !== 200; probes++) {
      expect(probes).toBeLessThan(1_000);
      await receiver.groupCommit.probe();
    }
    expect(await deliver(receiver.port, bodyOf())).toBe(204);
  });

  test('E12: after the open store file is deleted, deliveries get 503, /readyz is not ready, and nothing is acknowledged', async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, bodyOf())).toBe(204);
    unlinkSync(receiver.path);
    expect(await deliver(receiver.port, bodyOf({ cursor: '2' }))).toBe(503);
    expect(noted(receiver, 'store_replaced')).toBe(true);
    const ready = await send(receiver.port, '', { method: 'GET', path: '/readyz' });
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('npx kit restore')]);
    expect(receiver.answered.map(({ status }) => status)).toEqual([204, 503]);
  });
});
