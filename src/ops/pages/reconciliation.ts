// How what webhooks missed is found: where reading stands, the gaps and what to do about them, what each way brought.
import { iso } from '../../base/clock.ts';
import type { ReplayRun, VerifyAccount } from '../../store/keep.ts';
import type { Arrivals, Gap, Status } from '../../store/read.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, count, figures, hidden, reason, span, table, time } from './shell/parts.ts';

export interface Reconciliation {
  status: Status;
  runs: ReplayRun[];
  gaps: Gap[];
  weeks: Arrivals[];
  verify: VerifyAccount | null;
  /** Answered calls of ReplayEvents, in all. */
  calls: number;
  now: number;
  mayChange: boolean;
}

export function reconciliation({ status, runs, gaps, weeks, verify, calls, mayChange, now }: Reconciliation): Html {
  const { reconcile, stream, watermark, newestCursor } = status;
  const { progress } = reconcile;
  return html`${
      reconcile.state === 'off'
        ? html`<p class="empty">
            Off: what webhooks miss stays missing. Set <code>API_BASE_URL</code> and <code>API_KEY</code> in
            <code>.env</code>, then <code>npx kit reload</code>.
          </p>`
        : null
    }
    ${reconcile.reason === null ? null : html`<p class="${reconcile.state === 'stopped' ? 'alarmbar' : 'soft'}">${reconcile.reason}</p>`}
    ${figures([
      {
        name: 'State',
        value: reconcile.state,
        note: reconcile.since && `for ${span((now - Date.parse(reconcile.since)) / 1000)}`,
        tone: reconcile.state === 'stopped' ? 'bad' : undefined,
      },
      { name: 'Last complete run', value: time(reconcile.lastAt) },
      { name: 'Watermark', value: code(watermark), note: 'nothing is missing up to here' },
      { name: 'Newest cursor', value: code(newestCursor) },
      { name: 'Recovered', value: reconcile.recovered, note: 'brought by replay first' },
      { name: 'Calls of ReplayEvents', value: calls, note: html`at most <code>RECONCILE_CALLS_PER_MINUTE</code>` },
      { name: 'Stream', value: stream.state, note: stream.reason },
      ...(progress
        ? [
            {
              name: 'Catching up',
              value: `${count(progress.pages)} pages, ${count(progress.events)} events`,
              note: html`${count(progress.perMinute)} a minute; ends ${time(progress.endsAt)}`,
              tone: progress.behind ? ('warn' as const) : undefined,
            },
          ]
        : []),
    ])}
    ${mayChange && reconcile.state !== 'off' ? action('/reconciliation/now', 'Run now', null) : null}
    <h2>Last runs</h2>
    ${table(
      'Last runs; those in a row that brought nothing are one line',
      ['from', 'to', '#runs', '#pages', '#recovered', 'ended'],
      runs.map((run) => [
        time(run.from),
        time(run.to),
        run.runs,
        run.pages,
        run.recovered,
        `${run.state}${run.reason === null ? '' : `: ${run.reason}`}`,
      ]),
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
      gaps
        .toReversed()
        .map((gap) => [
          String(gap.id),
          code(gap.after),
          gap.upTo === null ? 'not known yet' : code(gap.upTo),
          gap.reason,
          time(gap.openedAt),
          gap.closedAt
            ? html`${time(gap.closedAt)}<br /><span class="soft">${gap.closedBy}</span>`
            : closing(gap, mayChange),
        ]),
      'No gaps: everything that the service had could be fetched.',
    )}
    <h2>Verify a stretch</h2>
    ${verifying(verify, mayChange && reconcile.state !== 'off')}
    <h2>Brought first by, week by week</h2>
    ${table(
      'Brought first by, week by week',
      ['week of', 'type', 'brought first by', '#events', '#late on average', '#at worst'],
      weeks.map(({ week, type, origin, events, lateMs, latestMs }) => [
        week,
        code(type),
        origin,
        events,
        late(lateMs),
        late(latestMs),
      ]),
      'Nothing has arrived yet.',
    )}`;
}

function closing({ id }: Gap, mayChange: boolean): Html {
  if (!mayChange) return html`<span class="state warn">open</span>`;
  return html`<span class="state warn">open</span>
    <details id="close-${id}">
      <summary>Close</summary>
      ${action('/reconciliation/close', 'Close the gap', html`${hidden('gap', id)} ${reason(`reason-${id}`, 'What was done about it')}`)}
    </details>`;
}

function verifying(verify: VerifyAccount | null, mayAsk: boolean): Html {
  return html`<p class="soft">
      Reads the service's history again from there, compares it with what is stored, and fetches what is missing.
    </p>
    ${
      mayAsk
        ? html`<div class="row">
            ${action('/reconciliation/verify', 'Verify', html`<label for="from">From a cursor, or a time in UTC</label> <input id="from" name="from" required placeholder="2026-01-31T12:00:00Z" autocomplete="off" />`)}
          </div>`
        : null
    }
    ${
      verify === null
        ? html`<p class="empty">No stretch was verified yet.</p>`
        : html`<p>
              <span class="state ${verify.state === 'done' ? 'good' : verify.state === 'failed' ? 'bad' : 'running'}"
                >${verify.state}</span
              >
              ${verify.reason} ${count(verify.events)} events on ${count(verify.pages)}
              ${verify.pages === 1 ? 'page' : 'pages'}, after ${code(verify.from)} up to ${code(verify.at)}, asked for
              ${time(iso(verify.asked))}
            </p>
            ${table(
              'What was found',
              [
                'type',
                '#present',
                '#missing, now recovered',
                '#older than the store remembers',
                '#only here',
                '#handled',
                '#dead',
              ],
              verify.types.map((sum) => [
                code(sum.type),
                sum.present,
                sum.missing,
                sum.older,
                // Counted at the end.
                ...[sum.onlyHere, sum.handled, sum.dead].map((n) => (verify.state === 'done' ? n : null)),
              ]),
              verify.state === 'running'
                ? 'Reading; this takes calls that reconciliation leaves.'
                : 'The stretch holds no events.',
            )}`
    }`;
}

function late(ms: number | null): string | null {
  return ms === null ? null : ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms / 1000);
}
