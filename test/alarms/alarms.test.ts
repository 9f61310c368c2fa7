// The notification of people about alarms, with a real HTTP endpoint as ALERT_URL.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createAlarms, type Alarms } from '../../src/alarms/alarms.ts';
import { iso } from '../../src/base/clock.ts';
import { StoreError } from '../../src/store/store.ts';
import { readDelivery, readItem } from '../../src/wire/event.ts';
import {
  createClock,
  createStoreFile,
  createTestLog,
  type StoreFile,
  type TestClock,
  type TestLog,
} from '../reconcile/harness.ts';
import { COMPOSE } from './alert-endpoint.ts';

const GB = 1024 ** 3;
const DAY_MS = 86_400_000;

describe('the notification of people', () => {
  let file: StoreFile;
  let clock: TestClock;
  let testLog: TestLog;
  let alertUrl: string;
  let closeEndpoint: () => Promise<void>;
  let runLives = true;
  let keepLives = true;
  /** The posts to ALERT_URL and the status of each answer, in order. */
  let posts: { text: string; status: number }[];
  let answer: number;
  let step: () => Promise<void>;

  beforeEach(async () => {
    file = createStoreFile();
    clock = createClock();
    testLog = createTestLog();
    posts = [];
    answer = 200;
    runLives = true;
    keepLives = true;
    const endpoint = createServer((req, res) => {
      let body = '';
      req.on('data', (chunk: Buffer) => (body += chunk.toString()));
      req.on('end', () => {
        expect(req.method).toBe('POST');
        expect(req.headers['content-type']).toBe('application/json');
        posts.push({ ...(JSON.parse(body) as { text: string }), status: answer });
        res.writeHead(answer, { location: '/elsewhere' }).end();
      });
    });
    await new Promise<void>((done) => endpoint.listen(0, '127.0.0.1', done));
    alertUrl = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/hook`;
    closeEndpoint = () => {
      endpoint.closeAllConnections();
      return new Promise((done) => endpoint.close(() => done()));
    };
    step = begin(alertUrl);
  });
  afterEach(async () => {
    await closeEndpoint();
    file.remove();
  });

  function begin(url: string | undefined, freeBytes = 100 * GB, signal?: AbortSignal): () => Promise<void> {
    const alarms = createAlarms({
      store: file.store,
      clock,
      log: testLog.log,
      alertUrl: url,
      compose: COMPOSE,
      freeBytes: () => freeBytes,
      ...(signal && { signal }),
    });
    return async () => {
      if (keepLives) await file.store.processes.beat({ role: 'keep', pid: 2, started: '', boot: 1 }, clock.time);
      if (runLives) await file.store.processes.beat({ role: 'run', pid: 1, started: '', boot: 1 }, clock.time);
      await alarms.step();
      await alarms.notify();
    };
  }
  const turn = async (alarms: Alarms): Promise<void> => {
    await alarms.step();
    await alarms.notify();
  };
  const fail = (run: number) => file.store.state.note({}, { failure_run: run });
  const texts = () => posts.map(({ text }) => text);
  const raised = async () => (await file.store.read.status(clock.time)).alarms.map(({ name }) => name);

  async function steps(ms: number, every = 2_000): Promise<void> {
    for (let passed = 0; passed < ms; passed += every) {
      clock.time += every;
      await step();
    }
  }

  test('handler_failing is raised for a busy handler that breaks, despite its earlier successes', async () => {
    let oldestReadySeconds = 0;
    const status = async (now: number) => ({ ...(await file.store.read.status(now)), oldestReadySeconds });
    const store = { ...file.store, read: { ...file.store.read, status } };
    const alarms = createAlarms({
      store,
      clock,
      log: testLog.log,
      alertUrl: undefined,
      compose: COMPOSE,
      freeBytes: () => 100 * GB,
    });
    step = () => alarms.step();
    for (let minute = 0; minute < 10; minute++) {
      await file.store.state.note({ 'attempts.done.answer': 600 });
      await steps(60_000, 20_000);
    }
    for (let minute = 1; minute <= 5; minute++) {
      await file.store.state.note({ 'attempts.retry.answer': 20 });
      oldestReadySeconds = minute * 60 + 1;
      await steps(60_000, 20_000);
    }
    expect(await raised()).toContain('handler_failing');
  });

  test('the waiting tasks of a paused handler do not raise handler_failing for another that fails now and then', async () => {
    const status = async (now: number) => ({ ...(await file.store.read.status(now)), oldestReadySeconds: 9_000 });
    const one = { loaded: true, waiting: 1, dead: 0 };
    const handlers = async () => [
      { ...one, name: 'answer', oldestSeconds: 9_000, paused: { since: '', reason: null, all: false } },
      { ...one, name: 'other', oldestSeconds: 5, paused: null },
    ];
    const store = { ...file.store, read: { ...file.store.read, status, handlers } };
    const rest = { clock, log: testLog.log, alertUrl: undefined, compose: COMPOSE, freeBytes: () => 100 * GB };
    const alarms = createAlarms({ store, ...rest });
    step = () => alarms.step();
    await file.store.state.note({}, { paused: JSON.stringify({ answer: { at: clock.time, reason: null } }) });
    await steps(10_000);
    await file.store.state.note({ 'attempts.retry.other': 3 });
    await steps(10_000);
    expect(await raised()).toEqual([]);
    await file.store.state.note({}, { paused: '{}' });
    await steps(10_000);
    expect(await raised()).toEqual(['handler_failing']);
  });

  test('run_crashing is posted if `run` shows no sign of life for long, even without a crash', async () => {
    await steps(10_000);
    runLives = false;
    await steps(60_000);
    expect(texts()).toEqual([expect.stringMatching(/^run_crashing: .* does not run/)]);
  });

  test('run_crashing is not raised while the store takes no sign of life from any process', async () => {
    await steps(10_000);
    runLives = false;
    keepLives = false;
    await steps(60_000);
    expect(await raised()).toEqual([]);
  });

  test('disk_low is posted once although the store cannot be written, and so is its all-clear', async () => {
    let full = true;
    const real = file.store;
    const ifRoom = (work: () => Promise<void>): Promise<void> =>
      full ? Promise.reject(new StoreError('unwritable', 'the disk is full')) : work();
    const store = {
      ...real,
      raise: (...given: Parameters<typeof real.alarms.raise>) => ifRoom(() => real.alarms.raise(...given)),
      told: (...given: Parameters<typeof real.alarms.told>) => ifRoom(() => real.alarms.told(...given)),
      note: (...given: Parameters<typeof real.state.note>) => ifRoom(() => real.state.note(...given)),
      clear: (...given: Parameters<typeof real.alarms.clear>) => ifRoom(() => real.alarms.clear(...given)),
    };
    let freeBytes = 0;
    const alarms = createAlarms({
      store,
      clock,
      log: testLog.log,
      alertUrl,
      compose: COMPOSE,
      freeBytes: () => freeBytes,
    });
    for (let n = 0; n < 5; n++, clock.time += 2_000) await turn(alarms);
    expect(texts()).toEqual([expect.stringMatching(/^disk_low: nothing is left/)]);
    full = false;
    await turn(alarms);
    freeBytes = 100 * GB;
    await turn(alarms);
    expect(texts().slice(1)).toEqual(['disk_low: all clear']);
  });

  test('bad signatures start a reconciliation every 20 s, and are posted if replay shows an event without a delivery', async () => {
    let asked = 0;
    const alarms = createAlarms({
      store: file.store,
      clock,
      log: testLog.log,
      alertUrl,
      compose: COMPOSE,
      freeBytes: () => 100 * GB,
      reconcileNow: () => void asked++,
    });
    await replay(9, false);
    await file.store.ingest.accept({ readings: [delivered()], now: clock.time });
    const at = iso(clock.time);
    await signatures({ badSignatures: 3, badSince: at, lastBadAt: at, lastGoodAt: at });
    for (let n = 0; n < 25; n++, clock.time += 2_000) await turn(alarms);
    expect([asked, texts()]).toEqual([3, []]);
    await file.store.ingest.accept({ readings: [missed(9)], now: clock.time, fresh: true });
    await turn(alarms);
    expect(texts(), 'it may still be on its way').toEqual([]);
    clock.time += 12_000;
    await turn(alarms);
    expect([asked, texts()]).toEqual([4, [expect.stringMatching(/^secret_mismatch: 3 .*WEBHOOK_SECRET=new,old/)]]);
  });

  test('bad signatures cost no replay calls if none has followed for ten minutes', async () => {
    let asked = 0;
    const reconcileNow = (): void => void asked++;
    const alarms = createAlarms({
      store: file.store,
      clock,
      log: testLog.log,
      alertUrl,
      compose: COMPOSE,
      freeBytes: () => 100 * GB,
      reconcileNow,
    });
    const at = iso(clock.time);
    await signatures({ badSignatures: 3, badSince: at, lastBadAt: at, lastGoodAt: at });
    clock.time += 600_000;
    await alarms.step();
    for (let n = 0; n < 25; n++) {
      clock.time += 60_000;
      await alarms.step();
    }
    expect(asked).toBe(1);
  });

  test('without an alarm nothing is posted', async () => {
    await steps(20_000);
    expect(posts).toEqual([]);
    expect(await raised()).toEqual([]);
  });

  test('an alarm is posted once, as text, and the status shows it with its beginning', async () => {
    await fail(3);
    await step();
    const since = new Date(clock.time).toISOString();
    await steps(60_000);
    expect(texts()).toEqual([expect.stringMatching(/^failure_run: 3 /)]);
    const { alarms } = await file.store.read.status(clock.time);
    expect(alarms).toEqual([{ name: 'failure_run', since, detail: expect.stringContaining('3') }]);
  });

  test('a post that ALERT_URL refuses is retried until it is accepted, and then no more', async () => {
    answer = 500;
    await fail(3);
    await steps(8_000);
    expect(posts, 'at longer and longer distances').toHaveLength(3);
    expect(testLog.text()).toContain('retrying');
    answer = 204;
    await steps(60_000);
    expect(posts.map(({ status }) => status)).toEqual([500, 500, 500, 204]);
  });

  test('while ALERT_URL refuses posts, the pauses between them grow up to five minutes', async () => {
    answer = 500;
    await fail(3);
    const times: number[] = [];
    for (const end = clock.time + 3_600_000; clock.time < end; clock.time += 2_000) {
      const before = posts.length;
      await step();
      if (posts.length > before) times.push(clock.time);
    }
    const apart = times.slice(1).map((at, i) => at - (times[i] ?? 0));
    expect(apart).toEqual(apart.toSorted((a, b) => a - b));
    expect(apart.at(-1)).toBe(300_000);
    expect(posts.length).toBeLessThan(25);
  });

  test('a post that ALERT_URL does not answer is aborted when the process stops', async () => {
    const arrived = Promise.withResolvers<void>();
    const hanging = createServer(() => arrived.resolve());
    await new Promise<void>((done) => hanging.listen(0, '127.0.0.1', done));
    onTestFinished(() => {
      hanging.closeAllConnections();
      hanging.close();
    });
    const never = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(new AbortController().signal);
    onTestFinished(() => never.mockRestore());
    const stopping = new AbortController();
    const url = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}`;
    step = begin(url, 100 * GB, stopping.signal);
    await fail(3);
    const stepping = step();
    await arrived.promise;
    stopping.abort();
    await stepping;
    expect(testLog.text()).not.toContain('ALERT_URL');
  });

  test('a redirect is not followed, and counts as a failed post', async () => {
    answer = 302;
    await fail(3);
    await step();
    expect(posts).toHaveLength(1);
    answer = 200;
    await steps(2_000);
    expect(posts.map(({ status }) => status)).toEqual([302, 200]);
  });

  test('if ALERT_URL cannot be reached, alarms are still raised, and the log says so', async () => {
    await closeEndpoint();
    await fail(3);
    await step();
    expect(await raised()).toEqual(['failure_run']);
    expect(testLog.text()).toContain('cannot be reached');
  });

  test('without ALERT_URL alarms are still raised and logged', async () => {
    step = begin(undefined, 0);
    await step();
    expect(await raised()).toEqual(['disk_low']);
    expect(testLog.text()).toContain('disk_low');
  });

  test('a reminder follows after a day, and not before', async () => {
    await fail(3);
    await step();
    clock.time += DAY_MS - 1_000;
    await step();
    expect(posts).toHaveLength(1);
    clock.time += 1_000;
    await step();
    await steps(10_000);
    expect(posts).toHaveLength(2);
  });

  test('when an alarm ends, there is one all-clear', async () => {
    await fail(3);
    await step();
    await fail(0);
    await steps(60_000);
    expect(texts()).toEqual([expect.stringContaining('failure_run: 3'), 'failure_run: all clear']);
    expect(await raised()).toEqual([]);
  });

  test('an alarm that is raised again is posted again', async () => {
    for (const run of [3, 0, 3]) {
      await fail(run);
      await step();
    }
    expect(texts()).toHaveLength(3);
  });

  test('an alarm whose posts all failed ends without an all-clear', async () => {
    answer = 500;
    await fail(3);
    await step();
    answer = 200;
    await fail(0);
    await steps(10_000);
    expect(posts).toHaveLength(1);
  });

  test('an all-clear that ALERT_URL refuses is retried', async () => {
    await fail(3);
    await step();
    answer = 500;
    await fail(0);
    await step();
    answer = 200;
    await steps(10_000);
    expect(posts.map(({ text, status }) => [text.slice(-9), status])).toContainEqual(['all clear', 200]);
  });

  test('failure_run is posted at 3, 10, 13 and 15, and not at every number between', async () => {
    for (let run = 1; run <= 20; run++) {
      await fail(run);
      await step();
    }
    expect(texts().map((text) => Number(/\d+/.exec(text)?.[0]))).toEqual([3, 10, 13, 15]);
  });

  test('a restart of `keep` neither repeats a post nor forgets the all-clear', async () => {
    await fail(3);
    await step();
    step = begin(alertUrl);
    await steps(10_000);
    expect(posts, 'told once').toHaveLength(1);
    await fail(0);
    await steps(10_000);
    expect(texts().slice(1)).toEqual(['failure_run: all clear']);
  });

  test('an alarm about a counter stays up over a restart of `keep`, and growth during the restart raises one too', async () => {
    await step();
    await file.store.state.note({ conflicts: 1 });
    await steps(4_000);
    step = begin(alertUrl);
    await steps(4_000);
    expect(await raised()).toEqual(['conflict']);
    await file.store.state.note({ regressions: 1 });
    step = begin(alertUrl);
    await steps(4_000);
    expect((await raised()).toSorted()).toEqual(['conflict', 'cursor_regression']);
    expect(texts().map((text) => text.split(':')[0])).toEqual(['conflict', 'cursor_regression']);
    await steps(12 * 60_000, 60_000);
    expect(await raised()).toEqual([]);
  });

  test('an alarm about a single event stays up for ten minutes, and then ends', async () => {
    await step();
    await file.store.state.note({ 'refused.body_limit': 1 });
    await steps(9 * 60_000, 60_000);
    expect(await raised()).toEqual(['body_limit']);
    await steps(3 * 60_000, 60_000);
    expect(await raised()).toEqual([]);
    expect(texts()).toEqual([expect.stringMatching(/^body_limit: /), 'body_limit: all clear']);
  });

  test('posts contain neither a body nor a secret', async () => {
    await fail(3);
    await file.store.state.note(
      {},
      {
        replay: JSON.stringify({
          state: 'stopped',
          since: null,
          lastAt: null,
          progress: null,
          reason: 'ReplayEvents: 401 UNAUTHENTICATED',
        }),
      },
    );
    await step();
    expect(texts().join('\n')).not.toMatch(/whsec_|Bearer|svc_/);
  });

  test.each<[string, (n: number) => Promise<unknown>, () => Promise<unknown>]>([
    [
      'webhook_silent',
      (n) => file.store.ingest.accept({ readings: [missed(n)], now: clock.time, fresh: true }),
      () => file.store.ingest.accept({ readings: [delivered()], now: clock.time }),
    ],
    [
      'replay_blind',
      (n) => file.store.state.note({ unseen: n }, { blind: '["MessageSent"]' }),
      () => steps(11 * 60_000),
    ],
    [
      'secret_mismatch',
      (n) => signatures({ badSignatures: n, badSince: iso(clock.time), lastBadAt: iso(clock.time) }),
      () => signatures({ badSignatures: 0 }),
    ],
    ['reconcile_behind', (n) => replay(n, true), () => replay(9, false)],
  ])(
    '%s is posted once while its figures change, even if ALERT_URL fails at first, and then its all-clear',
    async (name, hold, release) => {
      await file.store.ingest.accept({ readings: [delivered()], now: clock.time });
      await steps(2_000);
      answer = 500;
      for (let n = 3; n < 9; n++) {
        await hold(n);
        await steps(60_000);
        if (n === 6) answer = 200;
      }
      const told = posts.filter(({ status }) => status === 200).map(({ text }) => text);
      expect(told).toEqual([expect.stringMatching(`^${name}: `)]);
      expect(await raised()).toEqual([name]);
      await release();
      await steps(10_000);
      expect(texts().slice(-1)).toEqual([`${name}: all clear`]);
      expect(await raised()).toEqual([]);
    },
  );

  const missed = (cursor: number) =>
    readItem(
      'replay',
      String(cursor) as never,
      `{"MessageSent":{"session_id":null,"timestamp_unix_ms":${clock.time}}}`,
    );
  const delivered = () =>
    readDelivery(
      Buffer.from(
        JSON.stringify({
          id: 'e1',
          type: 'MessageSent',
          created_at: '2026-01-01T00:00:00Z',
          cursor: '1',
          session_id: null,
          webhook_id: 'w',
          data: { MessageSent: {} },
        }),
      ),
    );
  const signatures = (more: object) =>
    file.store.state.note(
      {},
      {
        failures: JSON.stringify({
          causes: {},
          badSignatures: 0,
          badSince: null,
          lastBadAt: null,
          lastGoodAt: null,
          ...more,
        }),
        refusals: JSON.stringify({
          bad_signature: [{ at: iso(clock.time), headers: 5, skewSeconds: 0, agent: 'Svc-Webhooks/1', bytes: 2 }],
        }),
      },
    );
  const replay = (pages: number, behind: boolean) =>
    file.store.state.note(
      {},
      {
        replay: JSON.stringify({
          state: 'running',
          since: null,
          lastAt: null,
          reason: null,
          progress: { pages, events: pages, perMinute: 1, endsAt: null, behind },
        }),
      },
    );
});
