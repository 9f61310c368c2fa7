// The page's addresses: which screen shows what, and which form changes what. Screens are functions of data.
import type { Accepted, IngestStore } from '../../store/ingest.ts';
import type { KeepStore } from '../../store/keep.ts';
import type { AdminStore } from '../../store/admin.ts';
import { StoreError } from '../../store/store.ts';
import type { SampleStore, ReadStore } from '../../store/read.ts';
import { askToVerify, beginningOf, readPoint } from '../../admin/range.ts';
import type { Jobs } from '../../admin/jobs.ts';
import { shelteredLane } from '../../admin/redact.ts';
import { createFrame, type Frame, type FrameOptions, type Visit } from './shell/frame.ts';
import type { Html } from './shell/html.ts';
import { overview, RANGES, type Range } from './overview.ts';
import { reconciliation } from './reconciliation.ts';
import { addRecords } from './record-routes.ts';
import { quarantined, refused, reread } from './refused.ts';

/** Rows that one page shows, and that one press reads again. */
const QUARANTINE = 200;
const LANES = 8;

export interface PageOptions extends FrameOptions {
  store: ReadStore &
    SampleStore &
    AdminStore &
    Pick<IngestStore, 'note'> &
    Pick<KeepStore, 'verifying' | 'anchors' | 'replayRuns'>;
  jobs: Jobs;
  /** After events or tasks were moved by hand. */
  onChange: () => void;
}

/** How the addresses are answered that are none of these. */
export function addPages({ router, access, store, view, clock, log, jobs, onChange }: PageOptions): Frame['lost'] {
  const frame = createFrame({ router, access, view, clock, log });
  const { screen, change, reveal } = frame;

  screen('/', 'Overview', async ({ ctx, status, now, mayChange }) => {
    const asked = ctx.query['range'];
    const range = typeof asked === 'string' && Object.hasOwn(RANGES, asked) ? (asked as Range) : '1h';
    const { ms, stepMs } = RANGES[range];
    const samples = await orEmpty(store.samples(now - ms, now, stepMs));
    const waiting = await orEmpty(store.waitingLanes(LANES));
    const lanes = mayChange ? waiting : waiting.map(shelteredLane);
    return overview({ status, samples, lanes, range });
  });

  screen('/reconciliation', 'Reconciliation', async ({ status, now, mayChange }) => {
    const [gaps, weeks, verify] = [await store.gaps(), await store.arrivals(), await store.verifying()];
    const calls = (await view.counters())['replay_calls'] ?? 0;
    return reconciliation({ status, runs: await store.replayRuns(), gaps, weeks, verify, calls, mayChange, now });
  });
  change('/reconciliation/now', async () => {
    await store.note({}, { reconcile_asked: clock.now() });
    return { to: '/reconciliation', message: 'Reconciliation was asked for; it begins within a second.' };
  });
  change('/reconciliation/close', async (form) => {
    const [gap, why] = [Number(form.get('gap')), form.get('reason')?.trim()];
    const closed = why ? await store.closeGap(gap, why, clock.now()) : false;
    const fault = why ? `There is no open gap ${gap}.` : 'A gap is closed with a reason: say what was done about it.';
    return { to: '/reconciliation', message: closed ? `Gap ${gap} is closed.` : fault };
  });
  change('/reconciliation/verify', async (form) => {
    const point = readPoint(form.get('from')?.trim() ?? '');
    const known = point !== undefined && (typeof point === 'string' || point <= clock.now());
    const from = known ? (await beginningOf(store, point)).from : null;
    if (from) await askToVerify(store, from, clock.now());
    const fault = known
      ? 'Nothing is stored that it could be compared with.'
      : 'Give a cursor, or a time that is past, like 2026-01-31T12:00:00Z.';
    return { to: '/reconciliation', message: from ? `Verifying from cursor ${from} on.` : fault };
  });

  screen('/refused', 'Refused and quarantined', async ({ status, mayChange }) => {
    const [counters, refusals] = [await view.counters(), await store.refusals()];
    return refused({ status, counters, refusals, quarantine: await store.quarantine(QUARANTINE), mayChange });
  });
  const oneAside = async ({ ctx, mayChange, mayReveal }: Visit, revealed: boolean): Promise<Html | undefined> => {
    const row = await store.quarantined(Number(ctx['params']['id']) || 0);
    return row && quarantined(row, revealed ? row.body : null, { change: mayChange, reveal: mayReveal });
  };
  screen('/refused/:id', 'Quarantined', (visit) => oneAside(visit, false));
  reveal('/refused/:id/body', 'Quarantined', (visit) => oneAside(visit, true));
  change('/refused/retry', async (form) => {
    const id = form.get('id');
    const ids = id === 'all' ? (await store.quarantine(QUARANTINE)).map((row) => row.id) : [Number(id) || 0];
    const outcomes: (Accepted | undefined)[] = [];
    for (const one of ids) outcomes.push(await store.retryQuarantined(one, clock.now()));
    onChange();
    return { to: '/refused', message: reread(outcomes) };
  });

  addRecords(frame, { store, clock, jobs });
  return frame.lost;
}

/** The overview says that the store cannot be used: it must not fail for that. */
async function orEmpty<Row>(rows: Promise<Row[]>): Promise<Row[]> {
  try {
    return await rows;
  } catch (error) {
    if (error instanceof StoreError) return [];
    throw error;
  }
}
