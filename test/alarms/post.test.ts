// What is posted of an alarm: the fields that chat rooms show, and those that programs read.
import { hostname } from 'node:os';
import { expect, onTestFinished, test } from 'vitest';
import { createNotifier } from '../../src/alarms/notifier.ts';
import { createCompose, originOf } from '../../src/alarms/post.ts';
import { createRaised } from '../../src/alarms/raised.ts';
import { RULES } from '../../src/alarms/rules/index.ts';
import { createClock, createTestLog } from '../reconcile/harness.ts';
import { COMPOSE, listenForAlerts } from './alert-endpoint.ts';

const SINCE = '2026-01-31T12:00:00.000Z';
const LOCAL = { OPS_ORIGIN: undefined, OPS_HOST: '127.0.0.1', OPS_PORT: 3001 };

test('an alarm and its all-clear are posted with the fields for chat rooms and for programs', async () => {
  const { url, bodies, close } = await listenForAlerts();
  onTestFinished(close);
  const clock = createClock();
  const { log } = createTestLog();
  const raised = createRaised({ clock, log, notifier: createNotifier({ url, compose: COMPOSE, clock, log }) });
  const since = new Date(clock.time).toISOString();
  raised.update(new Map([['disk_low', { detail: '500 MB are left', level: 1, news: 0 }]]));
  await raised.notify();
  clock.time += 86_400_000;
  await raised.notify();
  raised.update(new Map());
  await raised.notify();
  const alarm = {
    text: 'disk_low: 500 MB are left',
    content: 'disk_low: 500 MB are left',
    name: 'disk_low',
    gravity: 'critical',
    instance: hostname(),
    since,
    page: 'http://127.0.0.1:3001/',
    runbook: 'http://127.0.0.1:3001/runbook#disk_low',
  };
  const clear = 'disk_low: all clear';
  expect(bodies).toEqual([alarm, alarm, { ...alarm, text: clear, content: clear, gravity: 'clear' }]);
});

test('Discord gets at most 2,000 characters, Slack all of them', () => {
  const { text, content } = COMPOSE({ name: 'gap_open', since: SINCE, detail: 'x'.repeat(3_000) });
  expect(text).toHaveLength(3_010);
  expect(content).toMatch(/^gap_open: x+…$/);
  expect(content).toHaveLength(2_000);
});

test('with a PostgreSQL store the instance is named as npx kit instances names it', () => {
  const compose = createCompose({ ...LOCAL, storePath: null }, RULES, 4_711);
  expect(compose({ name: 'gap_open', since: SINCE, detail: '' }).instance).toBe(`${hostname()}:4711`);
});

test.each(Object.entries(RULES))('the post of %s leads to a screen of the ops port', (name, { page }) => {
  expect(page ?? '/').toMatch(/^\/([a-z-]+(\?[a-z]+=[a-z]+)?)?$/);
  expect(COMPOSE({ name, since: SINCE, detail: '' }).page).toBe(`http://127.0.0.1:3001${page ?? '/'}`);
});

test.each([
  [LOCAL, 'http://127.0.0.1:3001'],
  [{ ...LOCAL, OPS_HOST: '::1', OPS_PORT: 80 }, 'http://[::1]:80'],
  [{ ...LOCAL, OPS_HOST: '0.0.0.0' }, 'http://localhost:3001'],
  [{ ...LOCAL, OPS_HOST: '::' }, 'http://localhost:3001'],
  [{ ...LOCAL, OPS_HOST: 'ops.internal' }, 'http://ops.internal:3001'],
  [{ ...LOCAL, OPS_ORIGIN: 'https://ops.example.com/' }, 'https://ops.example.com'],
])('of %o people reach the ops port at %s', (config, origin) => {
  expect(originOf(config)).toBe(origin);
});
