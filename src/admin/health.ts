// The health of the kit: one word, one sentence and a colour. The page, its icon and `npx kit status` begin with it.
import { FAILURES_ALLOWED, FAILURES_FROM } from '../receive/delivery-health.ts';
import type { AlarmRules } from '../keep/module.ts';
import type { Alarm, Status } from '../store/read.ts';

export interface Health {
  word: 'Receiving' | 'Degraded' | 'Not receiving';
  words: string;
  tone: 'good' | 'warn' | 'bad';
}

/** Without the module `alarms`, nobody looks for dead letters, gaps, silence. */
const UNJUDGED = 'Deliveries are taken. This kit has no alarms (src/alarms), so judge the figures yourself.';

export function health(status: Status, rules: AlarmRules): Health {
  const { processes, alarms } = status;
  if (!canCommit(alarms, rules))
    return bad(
      'Not receiving',
      'The store cannot be written: deliveries get 503, and no handler goes on. The alarm below says why. The service retries its deliveries. The figures are those of before.',
    );
  const down = Object.entries(processes).flatMap(([role, state]) => (state === 'down' ? [role] : []));
  if (down.includes('receive')) return bad('Not receiving', 'The receive process is down. Start it: npm start.');
  if (down.length > 0)
    return bad(
      'Degraded',
      `Deliveries are taken, but ${down.join(' and ')} ${down.length === 1 ? 'is' : 'are'} down: see the log.`,
    );
  if (alarms.length > 0) return unwell(status, rules);
  if (Object.keys(rules).length === 0) return { word: 'Receiving', words: UNJUDGED + pauses(status), tone: 'warn' };
  return { word: 'Receiving', words: well(status), tone: status.paused.length > 0 ? 'warn' : 'good' };
}

function bad(word: Health['word'], words: string): Health {
  return { word, words, tone: 'bad' };
}

/** False if an alarm says that deliveries cannot be committed. */
export function canCommit(alarms: Alarm[], rules: AlarmRules): boolean {
  return !rulesOf(alarms, rules).some(({ deliveries }) => deliveries === 'uncommitted');
}

function rulesOf(alarms: Alarm[], rules: AlarmRules): AlarmRules[string][] {
  return alarms.flatMap(({ name }) => rules[name] ?? []);
}

function unwell(status: Status, rules: AlarmRules): Health {
  const { alarms, failureRun } = status;
  const up = rulesOf(alarms, rules);
  const attention = alarms.length === 1 ? '1 alarm needs attention' : `${alarms.length} alarms need attention`;
  const areMissing = up.some(({ deliveries }) => deliveries === 'missing');
  const areRefused = failureRun >= FAILURES_FROM;
  return {
    word: areMissing || failureRun >= FAILURES_ALLOWED ? 'Not receiving' : 'Degraded',
    words: `Deliveries are ${areMissing ? 'missing' : areRefused ? 'refused' : 'taken'}. ${attention}.${pauses(status)}`,
    tone: up.some(({ gravity }) => gravity === 'critical') ? 'bad' : 'warn',
  };
}

/** Says who is paused, if somebody is. */
function pauses({ paused }: Status): string {
  if (paused.length === 0) return '';
  return paused.includes('*') ? ' Every handler is paused.' : ` Paused: ${paused.join(', ')}.`;
}

function well(status: Status): string {
  const { events, tasks, unassigned, reconcile, watermark, lastDeliveryAt } = status;
  if (events === 0)
    return 'All is ready, and nothing has come yet: register the webhook, or enable it if it is off, then send its test event. npx kit doctor checks the way.';
  if (lastDeliveryAt === null)
    return 'No delivery of the service has come yet: register the webhook, or enable it if it is off, then send its test event. npx kit doctor checks the way.';
  const waiting = tasks.ready + tasks.held + tasks.running + unassigned;
  const work =
    waiting === 0
      ? 'all is handled'
      : `${waiting.toLocaleString('en')} ${waiting === 1 ? 'task is' : 'tasks are'} on the way`;
  if (reconcile.state === 'off')
    return `All is well: deliveries are taken, ${work}. Missed events are not fetched: set API_BASE_URL and API_KEY.${pauses(status)}`;
  return `All is well: deliveries are taken, ${work}, and nothing is missing${watermark === null ? ' as far as known' : ''}.${pauses(status)}`;
}
