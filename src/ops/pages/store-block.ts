// The figures of the dedup store itself: what it kept out, how large it is and will be, and how it is looked after.
import { iso } from '../../base/clock.ts';
import type { ReadStore, Sample, Status } from '../../store/read.ts';
import type { Disk } from '../../store/site.ts';
import type { KeptState } from '../../store/state.ts';
import { grown } from './samples.ts';
import { html, type Html } from './shell/html.ts';
import { ago, count, figures, size, type Cell, type Figure } from './shell/parts.ts';

export interface StoreFigures {
  status: Status;
  now: number;
  /** Null: what the store cannot say now. */
  disk: Disk | null;
  extent: Awaited<ReturnType<ReadStore['extent']>> | null;
  backup: KeptState['backup'];
  /** Samples of the last week. */
  week: Sample[];
  retentionDays: number;
}

const DAY_MS = 86_400_000;
const LEAST_FREE_BYTES = 512 * 1024 * 1024;

export function storeBlock({ status, now, disk, extent, backup, week, retentionDays }: StoreFigures): Html {
  const level = disk && levelOf(status.events, disk, week, retentionDays);
  const ends = level === null ? '' : `; levels off at about ${size(level)}`;
  const free = disk?.freeBytes ?? Infinity;
  const since = (ms: number | null | undefined): Html => ago(iso(ms ?? null), now);
  const odd = (name: string, n: number, path: string, note: string): Figure =>
    n === 0 ? { name, value: 0, note } : { name, value: html`<a href="${path}">${count(n)}</a>`, note, tone: 'warn' };
  const kept: Cell = html`kept for ${retentionDays} days; last pruned ${since(extent?.prunedAt)}`;
  const copy = backup?.bytes == null ? 'see BACKUP_DIR' : size(backup.bytes);
  return html`<div class="store">
    ${figures([
      { name: 'Events stored', value: status.events, note: 'each once' },
      { name: 'Duplicates kept out', value: status.duplicates, note: 'deliveries of known events' },
      odd('Contradictions', status.conflicts, '/events?contradicted=yes', 'arrivals that differ from a stored event'),
      odd('Gaps', status.gaps, '/reconciliation', 'history that the service no longer has'),
      {
        name: 'Size',
        value: disk && size(disk.storeBytes),
        note: disk && `and a log of ${size(disk.logBytes)}${ends}`,
      },
      {
        name: 'Free space',
        value: free === Infinity ? null : size(free),
        tone: free < LEAST_FREE_BYTES ? 'bad' : undefined,
      },
      { name: 'Oldest event received', value: since(extent?.oldestAt), note: kept },
      { name: 'Last verified backup', value: since(backup?.verifiedAt), note: copy },
    ])}
  </div>`;
}

/** The bytes at which the store stops to grow, if events go on to come as in the last week. Null: not known yet. */
export function levelOf(events: number, disk: Disk, week: Sample[], retentionDays: number): number | null {
  const [first, last] = [week[0], week.at(-1)];
  const ms = (last?.at ?? 0) - (first?.at ?? 0);
  const perDay = ms < DAY_MS ? 0 : (grown(first?.accepted, last?.accepted) * DAY_MS) / ms;
  return perDay === 0 || events === 0 ? null : (disk.storeBytes / events) * perDay * retentionDays;
}
