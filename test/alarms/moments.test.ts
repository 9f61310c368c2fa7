// E9: the ages of stored times. A step of the wall clock changes none of them.
import { expect, onTestFinished, test } from 'vitest';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { createMoments } from '../../src/alarms/moments.ts';
import { readDelivery, readItem } from '../../src/wire/event.ts';
import { createStoreFile, createTestLog, START } from '../reconcile/harness.ts';
import { COMPOSE } from './alert-endpoint.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function createClock() {
  const clock = { wall: START, passed: 0, now: () => clock.wall, monotonic: () => clock.passed };
  const pass = (ms: number): void => {
    clock.wall += ms;
    clock.passed += ms;
  };
  return { clock, pass };
}

test('a stored time is returned unchanged until the clock steps; after that, its age stays right', () => {
  const { clock, pass } = createClock();
  const moments = createMoments(clock);
  const look = (at: number) => (moments.look(), moments.moment('one', at));
  expect(look(START - HOUR)).toBe(START - HOUR);
  pass(MINUTE);
  expect(look(START - HOUR)).toBe(START - HOUR);
  clock.wall += DAY;
  expect(clock.wall - look(START - HOUR)).toBe(HOUR + MINUTE);
  clock.wall -= 60 * DAY;
  expect(clock.wall - look(START - HOUR)).toBe(HOUR + MINUTE);
  expect(moments.moment('none', null)).toBe(null);
});

test('a stored time that is new is no older than the round before, and no stored time lies in the future', () => {
  const { clock, pass } = createClock();
  const moments = createMoments(clock);
  const look = (at: number) => (moments.look(), moments.moment('one', at));
  look(START);
  pass(2_000);
  const written = clock.wall;
  pass(1_000);
  clock.wall += HOUR;
  expect(clock.wall - look(written)).toBeLessThanOrEqual(3_000);
  expect(clock.wall - look(clock.wall + DAY)).toBe(0);
});

async function setUp() {
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const { clock, pass } = createClock();
  const log = createTestLog().log;
  const alarms = createAlarms({
    store: file.store,
    clock,
    log,
    alertUrl: undefined,
    compose: COMPOSE,
    freeBytes: () => 1e12,
  });
  const up = () => alarms.up().map(({ name }) => name);
  async function steps(ms: number): Promise<void> {
    for (let gone = 0; gone < ms; gone += 10_000) {
      pass(10_000);
      for (const role of ['run', 'keep'])
        await file.store.processes.beat({ role, pid: 1, started: '', boot: 1 }, clock.now());
      await alarms.step();
      await alarms.notify();
    }
  }
  return { ...file, clock, steps, up };
}

test.each([HOUR, 60 * DAY, -HOUR, -60 * DAY])(
  'E9: after a step of the clock by %d ms, webhook_silent is raised in time, not before, and stays up',
  async (step) => {
    const { store, clock, steps, up } = await setUp();
    const envelope = { id: 'e', type: 'A', created_at: null, cursor: '1', session_id: null, data: { A: {} } };
    await store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(envelope)))], now: clock.now() });
    await steps(MINUTE);
    const item = `{"A":{"session_id":null,"timestamp_unix_ms":${clock.now()}}}`;
    await store.ingest.accept({ readings: [readItem('replay', '2' as never, item)], now: clock.now(), fresh: true });
    await steps(20_000);
    clock.wall += step;
    await steps(2 * MINUTE);
    expect(up()).toEqual([]);
    await steps(2 * MINUTE);
    expect(up()).toEqual(['webhook_silent']);
    clock.wall -= step;
    await steps(20_000);
    expect(up()).toEqual(['webhook_silent']);
  },
);

test.each([HOUR, -HOUR])(
  'E9: after a step of the clock by %d ms, reconcile_behind is raised in time, not before',
  async (step) => {
    const { store, clock, steps, up } = await setUp();
    await steps(MINUTE);
    const since = new Date(clock.now()).toISOString();
    const replay = { state: 'backing-off', since, lastAt: null, reason: '503', progress: null };
    await store.state.note({}, { replay: JSON.stringify(replay) });
    await steps(20_000);
    clock.wall += step;
    await steps(2 * MINUTE);
    expect(up()).toEqual([]);
    await steps(MINUTE);
    expect(up()).toEqual(['reconcile_behind']);
  },
);
