// Judges the facts again and again, writes down which alarms stand, and posts them: when one is raised, each day while it
// stands, and when it is over.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { alarmsOf } from '../operations/alarms.ts';
import { DAY_MS } from '../operations/judge.ts';
import { post } from '../operations/post.ts';
import type { Alarm, Disk, Facts } from '../operations/store/shapes.ts';
import { logBytes } from './checkpoint.ts';
import type { Keep, Step } from './keep.ts';

const STEP_MS = 5_000;
/** Until an alarm that was not taken is posted again. */
const AGAIN_MS = 60_000;

export function diskOf(file: string): Disk {
  const { bavail, bsize } = statfsSync(dirname(file));
  return { logBytes: logBytes(file), freeBytes: bavail * bsize };
}

export function createAlarms({ read, admin, config, clock, log }: Keep): Step {
  const tell = createPosts(config.ALERT_URL, clock, log);
  return async () => {
    const facts = await read.facts();
    const list = alarmsOf(facts, diskOf(config.storePath));
    const known = facts.alarms;
    if (list.length > 0 || known.length > 0) {
      const { raised, cleared } = await admin.alarms(list);
      for (const { name, about, level, text } of raised) log.warn({ alarm: name, about, level }, text);
      for (const { name, about } of cleared) log.info({ alarm: name, about }, 'the alarm is over');
    }
    for (const alarm of await tell(list, known)) await admin.posted(alarm);
    return STEP_MS;
  };
}

/** An alarm that ALERT_URL does not take holds up no other. That it is over is posted once, taken or not. */
function createPosts(url: string | undefined, clock: Clock, log: Logger) {
  const waits = new Map<string, number>();

  async function isTaken(to: string, alarm: Alarm, state: 'raised' | 'over'): Promise<boolean> {
    const { name, about, level } = alarm;
    const key = `${name} ${about}`;
    if (state === 'raised' && (waits.get(key) ?? 0) > clock.monotonic()) return false;
    const text = `${state === 'over' ? 'Over' : level}: ${alarm.text}`;
    // Slack and Mattermost show `text`, Discord shows `content` of at most 2,000 characters.
    const words = { text, content: text.slice(0, 2_000) };
    const why = await post(to, JSON.stringify({ ...words, alarm: name, about, level, state }));
    if (why) log.warn({ alarm: name, why }, 'ALERT_URL did not take an alarm');
    waits.set(key, why ? clock.monotonic() + AGAIN_MS : 0);
    return why === null;
  }

  /** Resolves with those that were taken. */
  return async (list: Alarm[], known: Facts['alarms']): Promise<Alarm[]> => {
    if (url === undefined) return [];
    const isSame = (one: Alarm, other: Alarm): boolean => one.name === other.name && one.about === other.about;
    /** One that has become worse is told again. */
    const lastOf = (alarm: Alarm): number =>
      known.find((one) => isSame(one, alarm) && one.level === alarm.level)?.postedAt ?? -Infinity;
    const ended = known.filter((one) => one.postedAt !== null && !list.some((alarm) => isSame(alarm, one)));
    const due = list.filter((alarm) => clock.now() - lastOf(alarm) > DAY_MS);
    const told = due.map(async (alarm) => ((await isTaken(url, alarm, 'raised')) ? [alarm] : []));
    await Promise.all(ended.map((alarm) => isTaken(url, alarm, 'over')));
    return (await Promise.all(told)).flat();
  };
}
