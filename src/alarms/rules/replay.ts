// Alarms about replay: it cannot read, reads too slowly, or shows less than webhooks deliver.
import { onCounter, recently, type Observation } from './observation.ts';
import type { Alarm } from '../../store/read.ts';
import { magnitude, type Rules } from './rule.ts';

/** `reconcile_behind` is raised if replay backs off for longer than this. */
const TROUBLE_MS = 180_000;

/** Refusals of a key that keeps its webhooks. */
const KEEPS_WEBHOOKS = /API_KEY_IP_FORBIDDEN/;
/** In the alarm's text, this also shows later that the key was refused. */
const REGISTER =
  'Webhooks of a key that is revoked, expired or without events:read stop with it, and another key does not bring them back: register the webhook again with the new key, and put its secret first in WEBHOOK_SECRET';

export const REPLAY: Rules<Observation> = {
  replay_blind: {
    gravity: 'warning',
    remedy:
      'Look at npx kit events --unseen first: forged ones mean a leaked secret. Else give API_KEY the numbers and scopes of the webhook.',
    page: '/reconciliation',
    ...onCounter('unseen'),
    words: (seen) =>
      `webhooks brought ${recently(seen, 'unseen')} events that two complete reads of replay did not show (${seen.blind.join(', ')}). Look at them first: npx kit events --unseen. If the service did not send them, they are forged, and the webhook's secret has leaked: see the runbook. Else API_KEY sees less than the webhook: give it the same numbers and scopes; what webhooks miss of these is not fetched`,
  },
  reconcile_stopped: {
    gravity: 'critical',
    remedy:
      'Fix API_KEY, npx kit reload; register the webhook again if the key was revoked or expired. Strict handlers wait.',
    page: '/reconciliation',
    // A new key does not bring back the webhook of a revoked one (contract 3.2), so the alarm stays for that.
    fires: (seen) => isStopped(seen) || webhookStopped(seen) !== undefined,
    level: (seen) => (isStopped(seen) ? magnitude(inStateMs(seen) / TROUBLE_MS) : 1),
    words: (seen) => {
      const { reconcile, tasks } = seen.status;
      if (!isStopped(seen))
        return `API_KEY was refused at ${webhookStopped(seen)?.since}, and no delivery has come since. ${REGISTER}. The next delivery ends this alarm, also a test event`;
      const also = KEEPS_WEBHOOKS.test(reconcile.reason ?? '') ? '' : `. ${REGISTER}`;
      return `reconciliation stopped (${reconcile.reason}): ${/IP_FORBIDDEN/.test(reconcile.reason ?? '') ? 'add the address of this machine to the key at the service, then npx kit reconcile' : 'correct API_KEY in the configuration, then npx kit reload'}; until then strict handlers wait (${tasks.held} held)${also}`;
    },
  },
  reconcile_behind: {
    gravity: 'warning',
    remedy:
      'npx kit status says why; if calls are the reason, raise RECONCILE_CALLS_PER_MINUTE: one brings up to 1,000 events.',
    page: '/reconciliation',
    fires: (seen) => isTooSlow(seen) || (seen.status.reconcile.state === 'backing-off' && inStateMs(seen) > TROUBLE_MS),
    level: (seen) => magnitude(inStateMs(seen) / TROUBLE_MS),
    words: (seen) => {
      const { reconcile, tasks } = seen.status;
      return isTooSlow(seen)
        ? 'reading the history is slower than new events arrive: raise RECONCILE_CALLS_PER_MINUTE (1,000 events a call, 120 calls a minute for the whole account)'
        : `nothing could be read from the service since ${reconcile.since} (${reconcile.reason}): missed events stay missing, and strict handlers wait (${tasks.held} held)`;
    },
  },
  watermark_ahead: {
    gravity: 'warning',
    remedy: 'See that npx kit reconcile comes to its end, and npx kit explain the event at the old watermark.',
    page: '/reconciliation',
    fires: (seen) => recently(seen, 'watermark_ahead') > 0 && seen.lowered !== null,
    words: ({ lowered }) =>
      `the watermark stood at ${lowered?.from}, too high: events were delivered below it that replay did not show. It went down to ${lowered?.to}, and reading begins again there. See npx kit reconcile --runs for what that recovers, and npx kit explain ${lowered?.from} for the event that raised it; if the service shows it by mistake, tell its support`,
  },
  gap_open: {
    gravity: 'warning',
    remedy: 'npx kit gaps; fetch what matters by other means, then close it.',
    page: '/reconciliation',
    fires: ({ gap }) => gap !== null,
    // The level rises, and is posted, at 1, 2 and 3 gaps, and then when their number reaches 4, 8, 16 and so on.
    level: ({ status: { gaps } }) => (gaps < 4 ? gaps : 2 + magnitude(gaps, 2)),
    words: ({ gap, status: { gaps } }) =>
      `${gaps > 1 ? `${gaps} gaps are open, npx kit gaps lists them; the newest is ` : ''}gap ${gap?.id}: the service can no longer replay what came after cursor ${gap?.after}${gap?.upTo ? ` up to ${gap.upTo}` : ''} (${gap?.reason}). Fetch what matters by other means, then npx kit gaps close ${gap?.id} --reason "…"`,
  },
};

function isStopped({ status }: Observation): boolean {
  return status.reconcile.state === 'stopped';
}

/** The alarm, if no delivery has come since it was raised for a key whose webhooks stopped with it. */
function webhookStopped({ status: { alarms, lastDeliveryAt } }: Observation): Alarm | undefined {
  const raised = alarms.find(({ name, detail }) => name === 'reconcile_stopped' && detail.includes(REGISTER));
  // Without any delivery so far, there may be no webhook yet.
  if (!raised || lastDeliveryAt === null) return undefined;
  return Date.parse(lastDeliveryAt) <= Date.parse(raised.since) ? raised : undefined;
}

function isTooSlow({ status }: Observation): boolean {
  return status.reconcile.progress?.behind ?? false;
}

/** Milliseconds since reconciliation entered its state. */
function inStateMs({ now, status: { reconcile } }: Observation): number {
  return reconcile.since === null ? 0 : now - Date.parse(reconcile.since);
}
