// Alarms about deliveries that fail, are refused, or do not come.
import { judgeSignatures, MISMATCH_FROM } from '../../receive/bad-signatures.ts';
import { causeOf } from '../../receive/causes.ts';
import { FAILURE_LEVELS, FAILURES_ALLOWED, FAILURES_FROM } from '../../receive/delivery-health.ts';
import { onCounter, recently, type Observation } from './observation.ts';
import { magnitude, switchedOff, type Rules } from './rule.ts';
import { causeList, explainSilence } from './webhook-silent.ts';

/** The main process looks every two seconds. A crowd that lasts shorter needs nobody. */
const FULL_LOOKS = 5;

export const DELIVERIES: Rules<Observation> = {
  failure_run: {
    gravity: 'critical',
    deliveries: 'refused',
    remedy:
      'Fix the causes, which npx kit status and the page list, before 15 in a row: then the service switches the webhook off.',
    page: '/refused',
    fires: (seen) =>
      seen.status.failureRun >= FAILURES_FROM ||
      recently(seen, 'failure_runs') > 0 ||
      recently(seen, 'unseen_failures') >= FAILURES_FROM,
    level: ({ status }) => 1 + FAILURE_LEVELS.filter((least) => status.failureRun >= least).length,
    words: failureRun,
  },
  webhook_silent: {
    gravity: 'critical',
    deliveries: 'missing',
    remedy: 'Enable the webhook at the service if it is off; npx kit doctor finds what else is in the way.',
    page: '/reconciliation',
    fires: (seen) => explainSilence(seen) !== null,
    level: ({ types }) => magnitude(types.reduce((sum, { missed }) => sum + missed, 0)),
    words: (seen) => `webhooks are silent. ${explainSilence(seen)}`,
  },
  secret_mismatch: {
    gravity: 'critical',
    deliveries: 'missing',
    remedy:
      'Set the secret of the webhook in WEBHOOK_SECRET, npx kit reload; enable the webhook if it is off. Keep no old secret that leaked.',
    page: '/refused',
    fires: (seen) => judgeSignatures(seen).mismatch,
    level: ({ status }) =>
      [MISMATCH_FROM, FAILURES_ALLOWED].filter((least) => status.failures.badSignatures >= least).length,
    words: (seen) =>
      `${judgeSignatures(seen).words}${switchedOff(seen.status.failures.badSignatures, seen.status.reconcile.state !== 'off' && seen.status.watermark !== null)}. If strangers sent them, the next good delivery ends this alarm`,
  },
  clock_skew: {
    gravity: 'critical',
    remedy: 'Synchronise the clock at once: each refused delivery counts towards switching the webhook off.',
    page: '/refused',
    ...onCounter('refused.clock_skew', FAILURES_FROM),
    words: ({ skewSeconds: ahead, status: { failureRun: run } }) => {
      const by = ahead === null ? 'wrong' : `${Math.abs(ahead)} s ${ahead < 0 ? 'ahead of' : 'behind'} the service`;
      if (run === 0)
        return `deliveries with a right signature were outside the time window: the clock of this machine was ${by}. Deliveries succeed again: nothing is left to do, and this alarm ends 10 minutes after the last such refusal`;
      return `deliveries with a right signature are outside the time window: the clock of this machine seems ${by}. Synchronise it, see timedatectl`;
    },
  },
  body_limit: {
    gravity: 'warning',
    remedy: 'Raise BODY_LIMIT_BYTES, and restart.',
    page: '/refused',
    ...onCounter('refused.body_limit'),
    words: () =>
      'a body was refused for its size, unread: if it was the service, raise BODY_LIMIT_BYTES; if a stranger, nothing is lost',
  },
  connections: {
    gravity: 'warning',
    remedy: 'Let the proxy limit connections by client. If they are deliveries: raise MAX_CONNECTIONS and ulimit -n.',
    ...onCounter('connections_full', FULL_LOOKS),
    words: () =>
      'there were more connections than MAX_CONNECTIONS for a while, so the idlest were closed: let the proxy limit connections by client; if they are deliveries, raise MAX_CONNECTIONS and the limit of open files (ulimit -n), and restart',
  },
};

function failureRun(seen: Observation): string {
  const { status, worstRun } = seen;
  const { failureRun: run, failures, reconcile } = status;
  if (run >= FAILURES_FROM) {
    const causes = causeList(failures.causes);
    // Headers are no proof, so a run without a verified signature may be the work of strangers.
    if (causes && !Object.keys(failures.causes).some((cause) => causeOf(cause)?.counts === 'surely'))
      return `${run} requests in a row with the headers of deliveries were refused unread (${causes}): ${remedyOf(failures.causes)}. If the service sent them, at ${FAILURES_ALLOWED} in a row it switches the webhook off: look there. If strangers sent them, the next good delivery ends this alarm`;
    return `${run} deliveries in a row were not answered with 2xx${causes ? ` (${causes})` : ''}: ${remedyOf(failures.causes)}${switchedOff(run, reconcile.state !== 'off' && status.watermark !== null)}`;
  }
  if (recently(seen, 'failure_runs') === 0)
    return `${recently(seen, 'unseen_failures')} recent events arrived with an attempt number above 1: earlier attempts failed before they reached us. See the proxy, the certificate and the network in front: npx kit doctor`;
  // A delivery that is in progress at the 15th failure can still succeed after the service has switched the webhook
  // off. So a success does not show that the webhook is on.
  return `${worstRun >= FAILURES_ALLOWED ? worstRun : '3 or more'} deliveries in a row were not answered with 2xx. ${run === 0 ? 'Deliveries succeed again' : 'Later deliveries succeeded, the newest failed again'}. At ${FAILURES_ALLOWED} in a row the service switches the webhook off: if it is still off, enable it at the service. The page, Refused, and the log have the causes. This alarm ends 10 minutes after the last such run`;
}

function remedyOf(causes: Record<string, number>): string {
  const known = Object.keys(causes).flatMap((cause) => causeOf(cause)?.remedy ?? []);
  return known.length > 0 ? known.join('; ') : 'the log has the cause';
}
