// Every five seconds: judges the facts and stores the alarms that are raised. Posts an alarm when it begins, when its level
// has changed, once a day, and when it is over.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { alarmsOf } from '../operations/alarms.ts';
import { DAY_MS } from '../operations/judge.ts';
import { post } from '../operations/post.ts';
import { readFacts } from '../operations/store/facts.ts';
import type { PeopleStore } from '../operations/store/open.ts';
import type { Alarm, Disk } from '../operations/store/shapes.ts';
import { logBytes } from './checkpoint.ts';
import type { Keep, Step } from './keep.ts';

const STEP_MS = 5_000;
/** The wait before an alarm that ALERT_URL has refused is posted again. */
const AGAIN_MS = 60_000;

type Standing = Alarm & { postedAt: number | null };

export function diskOf(file: string | null): Disk {
  if (file === null) return { folder: '', logBytes: 0, freeBytes: Infinity };
  const { bavail, bsize } = statfsSync(dirname(file));
  return { folder: dirname(file), logBytes: logBytes(file), freeBytes: bavail * bsize };
}

export function createAlarms({ db, config, log }: Keep): Step {
  const { ALERT_URL: url } = config;
  async function isTaken({ name, about, level }: Alarm, text: string, state: 'raised' | 'over'): Promise<boolean> {
    if (url === undefined) return false;
    // Slack and Mattermost show `text`, Discord shows `content` of at most 2,000 characters.
    const words = { text, content: text.slice(0, 2_000) };
    const why = await post(url, JSON.stringify({ ...words, alarm: name, about, level, state }));
    if (why) log.warn({ alarm: name, why }, 'ALERT_URL did not take an alarm');
    return why === null;
  }
  /** The raised alarms, in memory because a full disk cannot store them. Undefined: use the stored ones. */
  let standing: Standing[] | undefined;
  const refusedAt = new Map<string, number>();

  /** Posts the alarm if it is due, and sets `postedAt`. A refused alarm delays no other. */
  async function told(alarm: Standing): Promise<Standing> {
    const key = keyOf(alarm);
    const isKnown = alarm.postedAt !== null && db.clock.now() - alarm.postedAt <= DAY_MS;
    if (isKnown || db.clock.monotonic() - (refusedAt.get(key) ?? -Infinity) < AGAIN_MS) return alarm;
    if (await isTaken(alarm, `${alarm.level}: ${alarm.text}`, 'raised')) return { ...alarm, postedAt: db.clock.now() };
    refusedAt.set(key, db.clock.monotonic());
    return alarm;
  }

  return async () => {
    const facts = await readFacts(db);
    const before = standing ?? facts.alarms;
    const list = alarmsOf(facts, diskOf(config.storePath)).map(({ name, about, level, text }) => {
      const known = before.find((one) => keyOf(one) === keyOf({ name, about }));
      if (!known) log.warn({ alarm: name, about, level }, text);
      // An alarm whose level has changed is posted again.
      return { name, about, level, text, postedAt: known?.level === level ? known.postedAt : null };
    });
    const over = before.filter((one) => !list.some((alarm) => keyOf(alarm) === keyOf(one)));
    for (const { name, about } of over) log.info({ alarm: name, about }, 'the alarm is over');
    standing = list;
    // The end of an alarm is posted once, even if ALERT_URL refuses it.
    const ended = over.filter(({ postedAt }) => postedAt !== null);
    await Promise.all(ended.map((alarm) => isTaken(alarm, `Over: "${alarm.text.split(/[:.](?= )/)[0]}"`, 'over')));
    standing = await Promise.all(list.map(told));
    if (standing.length + facts.alarms.length > 0) await write(db, standing);
    return STEP_MS;
  };
}

const RAISE = `insert into alarms (name, about, level, text, raised_at, posted_at)
  values (@name, @about, @level, @text, @now, @postedAt)
  on conflict (name, about) do update set level = excluded.level, text = excluded.text, posted_at = excluded.posted_at`;

/** Stores these alarms, and deletes all others. */
function write(db: PeopleStore, list: Standing[]): Promise<void> {
  return db.write(async (tx) => {
    const keys = JSON.stringify(list.map(keyOf));
    await tx.run("delete from alarms where name || ' ' || about not in (select value from json_each(@keys))", { keys });
    for (const alarm of list) await tx.run(RAISE, { ...alarm, now: db.clock.now() });
  });
}

const keyOf = ({ name, about }: Pick<Alarm, 'name' | 'about'>): string => `${name} ${about}`;
