// Alarms about events that do not fit: contradicted, impossible to store, or from another account.
import { onCounter, recently, type Observation } from './observation.ts';
import type { Rules } from './rule.ts';

export const EVENTS: Rules<Observation> = {
  conflict: {
    gravity: 'warning',
    remedy:
      'npx kit explain with the key that the alarm names; if the service did not send both, the secret has leaked.',
    page: '/events?contradicted=yes',
    ...onCounter('conflicts'),
    words: (seen) =>
      `arrivals contradicted stored events (${recently(seen, 'conflicts')} recently): npx kit explain ${seen.contradicted ?? '<key>'} shows the last, npx kit events --contradicted all. If the service did not send both, one is forged, and the webhook's secret has leaked: see the runbook`,
  },
  poisoned: {
    gravity: 'warning',
    remedy: 'npx kit quarantine; fix the cause, then npx kit quarantine retry.',
    page: '/refused',
    ...onCounter('poisoned'),
    words: (seen) =>
      `recent events could not be stored, each for a reason of its own, and are quarantined (${recently(seen, 'poisoned')}): npx kit quarantine lists them with the reason; once its cause is gone, npx kit quarantine retry <id> stores and handles it`,
  },
  cursor_regression: {
    gravity: 'warning',
    remedy: 'Make sure that this store belongs to the account that delivers.',
    page: '/events',
    ...onCounter('regressions'),
    words: () =>
      'new events have cursors in a range that was pruned long ago: check that this store belongs to the account that delivers',
  },
};
