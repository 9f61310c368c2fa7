// Which alarms are up, and what people were told of each. It lives in memory, so that no alarm depends on the store, and
// decides when to tell: at each level that an alarm rises to, once; for news; once a day; and when it is over.
import { iso, type Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { AlarmStore, RaisedAlarm } from '../store/alarms.ts';
import type { Alarm } from '../store/read.ts';
import type { Notifier } from './notifier.ts';

const REMIND_MS = 86_400_000;
/** An alarm that has been so many levels below what was told, for so long, is told again when it rises. */
const FALLEN = { levels: 2, ms: 60_000 };
/** News without a higher level are told at most this often. */
const NEWS_MS = 60_000;

/** An alarm that holds. */
export interface Held {
  detail: string;
  /** How grave it is, from 1. */
  level: number;
  /** Grows with each thing that people should hear of, though it is no graver. */
  news: number;
}

export interface Board {
  /** From an earlier process. */
  restore(alarms: RaisedAlarm[]): void;
  /** These alarms hold now, and no others. */
  hold(holding: Map<string, Held>): void;
  /** Posts each alarm that is due. A post that fails stays due. */
  tell(): Promise<void>;
  up(): Alarm[];
  /** Writes what has changed; what could not be written is written the next time. */
  save(store: AlarmStore): Promise<void>;
}

interface Entry extends RaisedAlarm {
  held: Held;
  /** The highest recent level. If it is above `level`, a notification is due. */
  peak: number;
  toldAfter: number;
  lowSince: number | null;
  changed: boolean;
}

export function createBoard({ clock, log, notifier }: { clock: Clock; log: Logger; notifier: Notifier }): Board {
  const entries = new Map<string, Entry>();
  const forgotten = new Set<string>();

  function raise(name: string, held: Held): Entry {
    const fresh = { name, detail: held.detail, since: clock.now(), toldAt: null, level: 0, news: 0, cleared: false };
    return { ...fresh, held, peak: 0, toldAfter: 0, lowSince: null, changed: true };
  }

  function update(entry: Entry, held: Held): void {
    if (entry.cleared) Object.assign(entry, { cleared: false, since: clock.now(), changed: true });
    if (entry.detail !== held.detail) Object.assign(entry, { detail: held.detail, changed: true });
    entry.held = held;
    entry.peak = Math.max(entry.peak, held.level);
    const low = entry.level - held.level >= FALLEN.levels;
    entry.lowSince = low ? (entry.lowSince ?? clock.monotonic()) : null;
    if (entry.lowSince === null || clock.monotonic() - entry.lowSince < FALLEN.ms) return;
    Object.assign(entry, { level: held.level, peak: held.level, lowSince: null, changed: true });
  }

  function isDue({ cleared, toldAt, toldAfter, peak, level, held, news }: Entry): boolean {
    if (cleared || toldAt === null || peak > level) return true;
    const since = clock.monotonic() - toldAfter;
    return since >= REMIND_MS || (held.news > news && since >= NEWS_MS);
  }

  async function tellOne(entry: Entry): Promise<void> {
    const { name, detail, cleared, held, peak, toldAt } = entry;
    if (!isDue(entry)) return;
    if (cleared && toldAt === null) return remove(name);
    if (!(await notifier.post(`${name}: ${cleared ? 'all clear' : detail}`))) return;
    if (!cleared) {
      if (toldAt !== null) log.warn({ alarm: name }, detail);
      // What rose while the post was on the way stays due.
      const told = { level: Math.max(entry.level, peak), news: Math.max(entry.news, held.news) };
      Object.assign(entry, { ...told, toldAt: clock.now(), toldAfter: clock.monotonic(), changed: true });
    } else if (entry.cleared) remove(name);
    // It came back while its all-clear was on the way.
    else Object.assign(entry, { toldAt: null, level: 0, changed: true });
  }

  function remove(name: string): void {
    entries.delete(name);
    forgotten.add(name);
  }

  async function saveOne(entry: Entry, store: AlarmStore): Promise<void> {
    const { name, detail, since, toldAt, level, news, cleared } = entry;
    entry.changed = false;
    try {
      if (!cleared) await store.raise(name, detail, since);
      if (toldAt !== null) await store.told(name, level, news, toldAt);
      if (cleared) await store.clear(name);
    } catch (error) {
      entry.changed = true;
      throw error;
    }
  }

  return {
    restore(alarms) {
      for (const kept of alarms) {
        // A clock that was set back must not put off the reminder at each restart.
        const toldAt = kept.toldAt === null ? null : Math.min(kept.toldAt, clock.now());
        const elapsed = toldAt === null ? 0 : Math.min(clock.now() - toldAt, REMIND_MS);
        const times = { toldAt, toldAfter: clock.monotonic() - elapsed, lowSince: null };
        const now = entries.get(kept.name);
        if (!now) {
          const held = { detail: kept.detail, level: kept.level, news: kept.news };
          entries.set(kept.name, { ...kept, ...times, held, peak: kept.level, changed: toldAt !== kept.toldAt });
        } else if (now.toldAt === null) {
          const { level, news, since } = kept;
          Object.assign(now, { ...times, level, news, since });
        }
      }
    },
    hold(holding) {
      for (const [name, held] of holding) {
        const entry = entries.get(name);
        if (!entry || entry.cleared) log.warn({ alarm: name }, held.detail);
        const kept = entry ?? raise(name, held);
        entries.set(name, kept);
        update(kept, held);
      }
      for (const entry of entries.values()) {
        if (entry.cleared || holding.has(entry.name)) continue;
        Object.assign(entry, { cleared: true, changed: true });
        log.info({ alarm: entry.name }, 'all clear');
      }
    },
    async tell() {
      for (const entry of [...entries.values()]) await tellOne(entry);
    },
    up: () =>
      [...entries.values()].flatMap(({ name, since, detail, cleared }) =>
        cleared ? [] : [{ name, since: iso(since) ?? '', detail }],
      ),
    async save(store) {
      for (const name of forgotten) {
        await store.forget(name);
        forgotten.delete(name);
      }
      for (const entry of [...entries.values()]) if (entry.changed) await saveOne(entry, store);
    },
  };
}
