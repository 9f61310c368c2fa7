// The figures of the dedup store itself: what it kept out, how large it is and will be, and how it is looked after.
import { iso } from '../../base/clock.ts';
import type { ReadStore, Sample, Status } from '../../store/read.ts';
import type { Disk } from '../../store/site.ts';
import { eventsPerDay } from './samples.ts';
import { html, type Html } from './shell/html.ts';
import { ago, count, figures, size } from './shell/parts.ts';

export interface StoreFigures {
  status: Status;
  now: number;
  /** Null: what the store cannot say now. */
  disk: Disk | null;
  extent: Awaited<ReturnType<ReadStore['extent']>> | null;
  /** Null: no backup was tried. */
  backup: { verifiedAt: number | null; bytes: number | null } | null;
  /** Samples of the last week. */
  week: Sample[];
  retentionDays: number;
}

const LEAST_FREE_BYTES = 512 * 1024 * 1024;

export function storeBlock({ status, now, disk, extent, backup, week, retentionDays }: StoreFigures): Html {
  const { events, duplicates, conflicts, gaps } = status;
  const end = levelOf(events, disk, week, retentionDays);
  return html`<div class="store">
    ${figures([
      { name: 'Events stored', value: events, note: 'each once' },
      { name: 'Duplicates kept out', value: duplicates, note: 'deliveries of known events' },
      {
        name: 'Contradictions',
        value: conflicts === 0 ? 0 : html`<a href="/events?contradicted=yes">${count(conflicts)}</a>`,
        note: 'arrivals that differ from a stored event',
        tone: conflicts > 0 ? 'warn' : undefined,
      },
      {
        name: 'Gaps',
        value: gaps === 0 ? 0 : html`<a href="/reconciliation">${count(gaps)}</a>`,
        note: 'history that the service no longer has',
        tone: gaps > 0 ? 'warn' : undefined,
      },
      {
        name: 'Size',
        value: disk && size(disk.storeBytes),
        note: disk && `and a log of ${size(disk.logBytes)}${end === null ? '' : `; levels off at about ${size(end)}`}`,
      },
      {
        name: 'Free space',
        value: disk && Number.isFinite(disk.freeBytes) ? size(disk.freeBytes) : null,
        tone: disk && disk.freeBytes < LEAST_FREE_BYTES ? 'bad' : undefined,
      },
      {
        name: 'Oldest event received',
        value: ago(iso(extent?.oldestAt ?? null), now),
        note: html`kept for ${retentionDays} days; last pruned ${ago(iso(extent?.prunedAt ?? null), now)}`,
      },
      {
        name: 'Last verified backup',
        value: ago(iso(backup?.verifiedAt ?? null), now),
        note: backup?.bytes == null ? 'see BACKUP_DIR' : size(backup.bytes),
      },
    ])}
  </div>`;
}

/** The bytes at which the store stops to grow, if events go on to come as in the last week. Null: not known yet. */
export function levelOf(events: number, disk: Disk | null, week: Sample[], retentionDays: number): number | null {
  const perDay = eventsPerDay(week);
  if (perDay === null || perDay === 0 || events === 0 || disk === null) return null;
  return (disk.storeBytes / events) * perDay * retentionDays;
}
