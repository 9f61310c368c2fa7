// Judges the facts again and again, writes down which alarms stand, and posts them: when one is raised, each day while it
// stands, and when it is over.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { alarmsOf, type Disk } from '../operations/alarms.ts';
import { DAY_MS } from '../operations/judge.ts';
import { post } from '../operations/post.ts';
import type { PeopleStore } from '../operations/store/open.ts';
import type { Alarm, Facts } from '../operations/store/shapes.ts';
import { logBytes } from './checkpoint.ts';

const STEP_MS = 5_000;
/** Until an alarm that was not taken is posted again. */
const AGAIN_MS = 60_000;

export function diskOf(file: string): Disk {
  const { bavail, bsize } = statfsSync(dirname(file));
  return { logBytes: logBytes(file), freeBytes: bavail * bsize };
}

export interface AlarmsOptions extends PeopleStore {
  config: Pick<Config, 'storePath' | 'ALERT_URL'>;
  clock: Clock;
  log: Logger;
}

export function createAlarms({ read, admin, config, clock, log }: AlarmsOptions): () => Promise<number> {
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
    const posted = await tell(list, known);
    for (const alarm of posted) await admin.posted(alarm);
    return STEP_MS;
  };
}

/** One that is not taken holds up no other. */
function createPosts(url: string | undefined, clock: Clock, log: Logger) {
  const over = new Map<string, Alarm>();
  const waits = new Map<string, number>();
  const keyOf = ({ name, about }: Alarm): string => `${name} ${about}`;

  async function isTaken(to: string, alarm: Alarm, state: 'raised' | 'over'): Promise<boolean> {
    const key = `${state} ${keyOf(alarm)}`;
    if ((waits.get(key) ?? 0) > clock.monotonic()) return false;
    const text = state === 'over' ? `Over: ${alarm.text}` : `${alarm.level}: ${alarm.text}`;
    // Slack and Mattermost show `text`, Discord shows `content` of at most 2,000 characters.
    const { name, about, level } = alarm;
    const why = await post(
      to,
      JSON.stringify({ text, content: text.slice(0, 2_000), alarm: name, about, level, state }),
    );
    if (why) {
      waits.set(key, clock.monotonic() + AGAIN_MS);
      log.warn({ alarm: name, why }, 'ALERT_URL did not take an alarm: trying again');
    } else waits.delete(key);
    return why === null;
  }

  /** Resolves with those that were taken. */
  return async (list: Alarm[], known: Facts['alarms']): Promise<Alarm[]> => {
    if (url === undefined) return [];
    const stands = new Set(list.map(keyOf));
    const last = new Map(known.map((alarm) => [keyOf(alarm), alarm.postedAt]));
    for (const alarm of known) if (alarm.postedAt !== null && !stands.has(keyOf(alarm))) over.set(keyOf(alarm), alarm);
    for (const key of stands) over.delete(key);
    const due = list.filter((alarm) => clock.now() - (last.get(keyOf(alarm)) ?? -Infinity) > DAY_MS);
    const ended = [...over.values()].map(async (alarm) => {
      if (await isTaken(url, alarm, 'over')) over.delete(keyOf(alarm));
    });
    const taken = due.map(async (alarm) => ((await isTaken(url, alarm, 'raised')) ? [alarm] : []));
    await Promise.all(ended);
    return (await Promise.all(taken)).flat();
  };
}
