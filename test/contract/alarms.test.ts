// What the contract says about a webhook that has stopped (3.2), and what the alarm `webhook_silent` says to people.
import { expect } from 'vitest';
import { explainSilence } from '../../src/alarms/rules/webhook-silent.ts';
import { START } from '../store-file.ts';
import { holds } from './holds.ts';

/** What the alarm `webhook_silent` says ten minutes after the last delivery. */
function silence(more: { missed?: number; failureRun?: number; refused?: string }): string | null {
  const { missed = 0, failureRun = 0, refused } = more;
  const state = refused ? ('stopped' as const) : ('idle' as const);
  const since = new Date(START).toISOString();
  const reconcile = { state, since, lastAt: null, reason: refused ?? null, progress: null, recovered: 0 };
  const failures = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt: null, at: [] };
  const type = { type: 'MessageReceived', deliveredAt: START - 1, missed, missedSince: missed > 0 ? START : null };
  const status = { failureRun, failures, lastDeliveryAt: new Date(START - 1).toISOString(), reconcile };
  return explainSilence({ now: START + 600_000, status, types: [type], refused: [] });
}

holds('3.2', 'a disabled webhook has no deliveries: events that only replay shows raise an alarm', () => {
  expect(silence({})).toBeNull();
  expect(silence({ missed: 3 })).toMatch(/replay or stream brought 3 × MessageReceived.*switched off/);
});

holds(
  '3.2',
  'after 15 consecutive failures the webhook is off: the alarm says to fix the cause and to enable it',
  () => {
    expect(silence({ missed: 3, failureRun: 15 })).toMatch(/15 deliveries in a row.*enable it at the service/);
  },
);

holds(
  '3.2',
  'the webhooks of a revoked or expired key have stopped: the alarm says to register the webhook again',
  () => {
    const refused = 'ReplayEvents: 401 UNAUTHENTICATED (API_AUTH_REVOKED)';
    expect(silence({ refused })).toMatch(/new key.*register the webhook/);
  },
);

holds('3.2', 'the webhooks of a key that loses events:read have stopped: the alarm says so', () => {
  expect(silence({ refused: 'ReplayEvents: 403 FORBIDDEN' })).toContain('events:read');
});
