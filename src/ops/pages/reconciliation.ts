// The screen of reconciliation: its state and last runs, gaps, the last `verify`, and events by origin and week.
import { iso } from '../../base/clock.ts';
import type { Progress, ReplayRun, VerifyAccount } from '../../store/keep.ts';
import type { Gap, Status } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import {
  action,
  code,
  confirm,
  count,
  figures,
  hidden,
  reason,
  span,
  table,
  time,
  type Cell,
  type Figure,
} from './shell/parts.ts';

const OFF = html`<p class="empty">
  Off: missed events stay missing. Set <code>API_BASE_URL</code> and <code>API_KEY</code> in <code>.env</code>, then
  <code>npx kit reload</code>.
</p>`;

export async function reconciliation({ status, now, mayChange }: Visit, { store, view }: OpsContext): Promise<Html> {
  const [runs, verify] = [await store.state.get('replay_runs'), await store.state.get('verify')];
  const [gaps, weeks] = [await store.read.gaps(), await store.read.arrivals()];
  const calls = (await view.counters())['replay_calls'] ?? 0;
  const { state, reason: why } = status.reconcile;
  const isOn = state !== 'off';
  return html`${isOn ? null : OFF}
    ${why === null ? null : html`<p class="${state === 'stopped' ? 'alarmbar' : 'soft'}">${why}</p>`}
    ${standing(status, calls, now)} ${mayChange && isOn ? action('/reconciliation/now', 'Run now', null) : null}
    <h2>Last runs</h2>
    ${table(
      'Last runs; those in a row that brought nothing are one line',
      ['from', 'to', '#runs', '#pages', '#recovered', 'ended'],
      runs.map((run) => [time(run.from), time(run.to), run.runs, run.pages, run.recovered, endOf(run)]),
      'No run has ended yet.',
    )}
    <h2>Gaps</h2>
    <p class="soft">
      Stretches that the service can no longer replay. Fetch what matters of them by other means (a handler on
      <code>kit.gap</code> may do so), then close them.
    </p>
    ${table(
      'Gaps',
      ['gap', 'after', 'up to', 'why', 'opened', 'closed'],
      gaps.toReversed().map((gap) => gapRow(gap, mayChange)),
      'No gaps: everything that the service had could be fetched.',
    )}
    <h2>Verify a stretch</h2>
    ${verifying(verify, mayChange && isOn)}
    <h2>Brought first by, week by week</h2>
    ${table(
      'Brought first by, week by week',
      ['week of', 'type', 'brought first by', '#events', '#late on average', '#at worst'],
      weeks.map((sum) => [sum.week, code(sum.type), sum.origin, sum.events, late(sum.lateMs), late(sum.latestMs)]),
      'Nothing has arrived yet.',
    )}`;
}

function standing(status: Status, calls: number, now: number): Html {
  const { reconcile, stream, watermark, newestCursor } = status;
  const { state, since, progress } = reconcile;
  const note = since && `for ${span((now - Date.parse(since)) / 1000)}`;
  return figures([
    { name: 'State', value: state, note, tone: state === 'stopped' ? 'bad' : undefined },
    { name: 'Last complete run', value: time(reconcile.lastAt) },
    { name: 'Watermark', value: code(watermark), note: 'nothing is missing up to here' },
    { name: 'Newest cursor', value: code(newestCursor) },
    { name: 'Recovered', value: reconcile.recovered, note: 'brought by replay first' },
    { name: 'Calls of ReplayEvents', value: calls, note: html`at most <code>RECONCILE_CALLS_PER_MINUTE</code>` },
    { name: 'Stream', value: stream.state, note: stream.reason },
    ...(progress ? [catchingUp(progress)] : []),
  ]);
}

function catchingUp({ pages, events, perMinute, endsAt, behind }: Progress): Figure {
  return {
    name: 'Catching up',
    value: `${count(pages)} pages, ${count(events)} events`,
    note: html`${count(perMinute)} a minute; ends ${time(endsAt)}`,
    tone: behind ? 'warn' : undefined,
  };
}

function endOf({ state, reason: why }: ReplayRun): string {
  return why === null ? state : `${state}: ${why}`;
}

function gapRow({ id, after, upTo, reason: why, openedAt, closedAt, closedBy }: Gap, mayChange: boolean): Cell[] {
  const form = html`${hidden('gap', id)} ${reason(`reason-${id}`, 'What was done about it')}`;
  const close = confirm(`close-${id}`, 'Close', action('/reconciliation/close', 'Close the gap', form));
  const end = closedAt
    ? html`${time(closedAt)}<br /><span class="soft">${closedBy}</span>`
    : html`<span class="state warn">open</span> ${mayChange ? close : null}`;
  return [String(id), code(after), upTo === null ? 'not known yet' : code(upTo), why, time(openedAt), end];
}

function verifying(verify: VerifyAccount | null, mayAsk: boolean): Html {
  const from = html`<label for="from">From a cursor, or a time in UTC</label>
    <input id="from" name="from" required placeholder="2026-01-31T12:00:00Z" autocomplete="off" />`;
  return html`<p class="soft">
      Reads the service's history again from there, compares it with what is stored, and fetches what is missing.
    </p>
    ${mayAsk ? html`<div class="row">${action('/reconciliation/verify', 'Verify', from)}</div>` : null}
    ${verify === null ? html`<p class="empty">No stretch was verified yet.</p>` : accountOf(verify)}`;
}

const FOUND = '#present|#missing, now recovered|#older than the store remembers|#only here|#handled|#dead'.split('|');

function accountOf({ state, reason: why, events, pages, from, at, asked, types }: VerifyAccount): Html {
  const tone = state === 'done' ? 'good' : state === 'failed' ? 'bad' : 'running';
  // Some counts are known only when `verify` has ended.
  const last = (n: number): number | null => (state === 'done' ? n : null);
  return html`<p>
      <span class="state ${tone}">${state}</span> ${why} ${count(events)} events on ${count(pages)}
      ${pages === 1 ? 'page' : 'pages'}, after ${code(from)} up to ${code(at)}, asked for ${time(iso(asked))}
    </p>
    ${table(
      'What was found',
      ['type', ...FOUND],
      types.map((sum) => [
        ...[code(sum.type), sum.present, sum.missing, sum.older],
        ...[last(sum.onlyHere), last(sum.handled), last(sum.dead)],
      ]),
      state === 'running' ? 'Reading; this takes calls that reconciliation leaves.' : 'The stretch holds no events.',
    )}`;
}

function late(ms: number | null): string | null {
  return ms === null ? null : ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms / 1000);
}
