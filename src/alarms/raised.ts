// Keeps the raised alarms. Each is posted when it begins, when its level or its `news` grows, once a day, and when it
// ends. The state is in memory, so that alarms are posted even if the store fails, for example on a full disk.
import type { Store } from '../store/store.ts';
import { iso, type Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { RaisedAlarm } from '../store/alarms.ts';
import type { Alarm } from '../store/read.ts';
import type { Notifier } from './notifier.ts';

const REMIND_MS = 86_400_000;
/** If an alarm stays this many levels below its last posted level for this long, its next rise is posted again. */
const FALLEN = { levels: 2, ms: 60_000 };
/** While its level stays the same, an alarm whose `news` grows is posted at most this often. */
const NEWS_MS = 60_000;

/** An alarm whose rule fires. */
export interface Firing {
  detail: string;
  /** How bad it is: at least 1, without an upper limit. */
  level: number;
  news: number;
}

export interface Raised {
  /** Continues the alarms that an earlier process raised. */
  restore(alarms: RaisedAlarm[]): void;
  /** `firing` holds all alarms that fire now. Every other alarm ends. */
  update(firing: Map<string, Firing>): void;
  /** Posts each alarm that began, rose or ended, or was posted a day ago. Retries failed posts at the next call. */
  notify(): Promise<void>;
  up(): Alarm[];
  /** Writes the changes. A change that could not be written is written the next time. */
  save(store: Pick<Store, 'alarms'>): Promise<void>;
}

interface Entry extends RaisedAlarm {
  firing: Firing;
  /** The highest level since the alarm began or fell. It is posted if it is above `level`, the last posted one. */
  peak: number;
  toldAfter: number;
  lowSince: number | null;
  changed: boolean;
}

export function createRaised({ clock, log, notifier }: { clock: Clock; log: Logger; notifier: Notifier }): Raised {
  const entries = new Map<string, Entry>();
  const forgotten = new Set<string>();

  async function post(entry: Entry): Promise<void> {
    const { name, detail, cleared, firing, peak, toldAt, since } = entry;
    if (cleared && toldAt === null) return remove(name);
    if (!(await notifier.post({ name, since: iso(since) ?? '', detail: cleared ? null : detail }))) return;
    if (!cleared) {
      if (toldAt !== null) log.warn({ alarm: name }, detail);
      // `peak` was read before the post, so a rise during the post is posted next.
      const told = { level: Math.max(entry.level, peak), news: Math.max(entry.news, firing.news) };
      Object.assign(entry, { ...told, toldAt: clock.now(), toldAfter: clock.monotonic(), changed: true });
    } else if (entry.cleared) remove(name);
    // The alarm was raised again during the post of its all-clear, so it counts as not posted yet.
    else Object.assign(entry, { toldAt: null, level: 0, changed: true });
  }

  function remove(name: string): void {
    entries.delete(name);
    forgotten.add(name);
  }

  return {
    restore(alarms) {
      for (const kept of alarms) entries.set(kept.name, restored(kept, entries.get(kept.name), clock));
    },
    update(firing) {
      for (const [name, now] of firing) {
        const entry = entries.get(name);
        if (!entry || entry.cleared) log.warn({ alarm: name }, now.detail);
        const kept = entry ?? raise(name, now, clock);
        entries.set(name, kept);
        follow(kept, now, clock);
      }
      for (const entry of entries.values()) {
        if (entry.cleared || firing.has(entry.name)) continue;
        Object.assign(entry, { cleared: true, changed: true });
        log.info({ alarm: entry.name }, 'all clear');
      }
    },
    async notify() {
      for (const entry of [...entries.values()]) if (isDue(entry, clock)) await post(entry);
    },
    up: () =>
      [...entries.values()].flatMap(({ name, since, detail, cleared }) =>
        cleared ? [] : [{ name, since: iso(since) ?? '', detail }],
      ),
    async save(store) {
      for (const name of forgotten) {
        await store.alarms.forget(name);
        forgotten.delete(name);
      }
      for (const entry of [...entries.values()]) if (entry.changed) await write(entry, store);
    },
  };
}

function raise(name: string, firing: Firing, clock: Clock): Entry {
  const kept = { name, detail: firing.detail, since: clock.now(), toldAt: null, level: 0, news: 0, cleared: false };
  return { ...kept, firing, peak: 0, toldAfter: 0, lowSince: null, changed: true };
}

/** Merges the stored alarm `kept` with `now`, the entry of the same alarm if this process has already raised it. */
function restored(kept: RaisedAlarm, now: Entry | undefined, clock: Clock): Entry {
  // A time in the future means that the clock was set back. It becomes now, or each restart would delay the reminder.
  const toldAt = kept.toldAt === null ? null : Math.min(kept.toldAt, clock.now());
  const elapsed = toldAt === null ? 0 : Math.min(clock.now() - toldAt, REMIND_MS);
  const times = { toldAt, toldAfter: clock.monotonic() - elapsed, lowSince: null };
  const { detail, level, news, since } = kept;
  if (!now) {
    const firing = { detail, level, news };
    return { ...kept, ...times, firing, peak: level, changed: toldAt !== kept.toldAt };
  }
  return now.toldAt === null ? Object.assign(now, { ...times, level, news, since }) : now;
}

function follow(entry: Entry, firing: Firing, clock: Clock): void {
  const { detail, level } = firing;
  if (entry.cleared) Object.assign(entry, { cleared: false, since: clock.now(), changed: true });
  if (entry.detail !== detail) Object.assign(entry, { detail, changed: true });
  entry.firing = firing;
  entry.peak = Math.max(entry.peak, level);
  const low = entry.level - level >= FALLEN.levels;
  entry.lowSince = low ? (entry.lowSince ?? clock.monotonic()) : null;
  if (entry.lowSince === null || clock.monotonic() - entry.lowSince < FALLEN.ms) return;
  Object.assign(entry, { level, peak: level, lowSince: null, changed: true });
}

function isDue({ cleared, toldAt, toldAfter, peak, level, firing, news }: Entry, clock: Clock): boolean {
  if (cleared || toldAt === null || peak > level) return true;
  const since = clock.monotonic() - toldAfter;
  return since >= REMIND_MS || (firing.news > news && since >= NEWS_MS);
}

async function write(entry: Entry, store: Pick<Store, 'alarms'>): Promise<void> {
  const { name, detail, since, toldAt, level, news, cleared } = entry;
  entry.changed = false;
  try {
    if (!cleared) await store.alarms.raise(name, detail, since);
    if (toldAt !== null) await store.alarms.told(name, level, news, toldAt);
    if (cleared) await store.alarms.clear(name);
  } catch (error) {
    entry.changed = true;
    throw error;
  }
}
