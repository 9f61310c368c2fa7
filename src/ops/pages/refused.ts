// What was turned away and what was kept aside: enough to tell the service under a wrong secret from strangers' noise.
import type { Accepted } from '../../store/ingest.ts';
import type { Refusal } from '../../store/keep.ts';
import type { Quarantined, Status } from '../../store/read.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, count, figures, hidden, span, table, time } from './shell/parts.ts';

export interface Refused {
  status: Status;
  counters: Record<string, number>;
  refusals: Record<string, Refusal[]>;
  quarantine: Quarantined[];
  mayChange: boolean;
}

/** What each cause means, and what to do. The causes are receive's. */
const MEANING: Record<string, string> = {
  bad_signature: 'No secret of ours signed it: a stranger, or WEBHOOK_SECRET is not the secret of the webhook',
  clock_skew: 'Rightly signed, outside the time window: synchronise the clock of this machine',
  own_skew: 'Sent by npx kit trigger --old: as it should be',
  no_signature: 'No readable v1= signature: a stranger, or WEBHOOK_HEADER_PREFIX is another',
  bad_timestamp: 'No readable timestamp: a stranger',
  far_timestamp: 'A timestamp more than a day off: a stranger, or a clock that is wrong by far',
  body_limit: 'Above BODY_LIMIT_BYTES: raise it if it was the service',
  body_dropped: 'Dropped for the budget: too many large bodies at once',
  body_aborted: 'The sender went away: see the proxy in front',
  content_encoding: 'Compressed: let the proxy pass bodies as they are',
  method: 'Not a POST: noise',
  path: 'Another path: noise, or the proxy passes more than WEBHOOK_PATH',
  store: 'Answered 503: the store could not be written within 8 s; see the disk',
};

export function refused({ status, counters, refusals, quarantine, mayChange }: Refused): Html {
  const causes = Object.entries(counters)
    .flatMap(([name, n]) => (name.startsWith('refused.') && n > 0 ? [[name.slice('refused.'.length), n] as const] : []))
    .toSorted((a, b) => b[1] - a[1]);
  const samples = Object.entries(refusals).flatMap(([cause, list]) => list.map((one) => ({ cause, ...one })));
  const { badSignatures, badSince, lastBadAt } = status.failures;
  return html`<p class="health ${badSignatures >= 3 ? 'warn' : 'good'}">
      ${guess(status, refusals['bad_signature'] ?? [])}
    </p>
    ${figures([
      { name: 'Last good delivery', value: time(status.lastDeliveryAt) },
      {
        name: 'Wrongly signed since then',
        value: badSignatures,
        note: badSignatures > 0 ? html`since ${time(badSince)}` : html`last ${time(lastBadAt)}`,
        tone: badSignatures >= 3 ? 'warn' : undefined,
      },
      {
        name: 'Outside the time window',
        value: counters['refused.clock_skew'] ?? 0,
        note: 'rightly signed: a clock is wrong',
      },
      { name: 'Quarantined', value: status.quarantined },
    ])}
    <h2>Refused, by cause</h2>
    ${table(
      'Refused, by cause',
      ['cause', '#in all', 'what it means'],
      causes.map(([cause, n]) => [code(cause), n, MEANING[cause] ?? null]),
      'Nothing was refused yet.',
    )}
    <h2>The last of each cause</h2>
    ${table(
      'The last refusals of each cause',
      ['at', 'cause', 'headers of a delivery', '#clock differs', 'user agent', '#bytes'],
      samples
        .toSorted((a, b) => b.at.localeCompare(a.at))
        .map(({ at, cause, headers, skewSeconds, agent, bytes }) => [
          time(at),
          code(cause),
          `${headers} of 5`,
          skewSeconds === null ? null : `${skewSeconds < 0 ? '−' : '+'}${span(Math.abs(skewSeconds))}`,
          agent,
          bytes,
        ]),
      'No refusal since the start of the receiver.',
    )}
    <h2>Quarantine</h2>
    <p class="soft">
      Rightly signed, but not readable as an event; the bytes are kept. After a change of <code>src/wire</code> or
      <code>src/events.ts</code>, read them again.
    </p>
    ${quarantine.length > 1 && mayChange ? action('/refused/retry', `Read all ${count(status.quarantined)} again`, hidden('id', 'all')) : null}
    ${table(
      'Quarantine',
      ['id', 'received', 'origin', 'cursor', '#bytes', 'why'],
      quarantine.map(({ id, receivedAt, origin, cursor, bytes, reason }) => [
        html`<a href="/refused/${id}">${id}</a>`,
        time(receivedAt),
        origin,
        code(cursor),
        bytes,
        reason,
      ]),
      'Nothing is quarantined.',
    )}`;
}

/** Wrong secret, wrong clock, or noise: what the figures speak for. */
function guess({ failures, lastDeliveryAt, secrets }: Status, bad: Refusal[]): string {
  if (failures.badSignatures === 0)
    return lastDeliveryAt === null
      ? 'No delivery of the service has come yet, and none that looks like one was refused.'
      : 'No sign of a wrong secret: nothing was wrongly signed since the last good delivery.';
  const dressed = bad.filter(({ headers }) => headers === 5).length;
  if (failures.badSignatures < 3) return 'A few were signed by no secret of ours: noise, so far.';
  if (dressed === 0) return 'Noise: what is wrongly signed does not carry the headers of a delivery.';
  return `Probably a wrong secret: what is wrongly signed carries all headers of a delivery (${dressed} of ${bad.length} below), and nothing was rightly signed since. Compare WEBHOOK_SECRET (${secrets.length} configured) with the webhook's at the service.`;
}

const SHOWN_BYTES = 16 * 1024;

/** The bytes as they came, as hex and as text; `body` is null where they are not shown. */
export function quarantined(
  row: Quarantined,
  body: Uint8Array | null,
  may: { change: boolean; reveal: boolean },
): Html {
  return html`${figures([
      { name: 'Why', value: row.reason },
      { name: 'Received', value: time(row.receivedAt) },
      { name: 'Origin', value: row.origin },
      { name: 'Cursor', value: code(row.cursor) },
      { name: 'Bytes', value: row.bytes },
    ])}
    ${
      body === null
        ? may.reveal
          ? action(`/refused/${row.id}/body`, 'Reveal the bytes: this is logged', null)
          : html`<p class="empty">
              The bytes hold what people wrote, and are shown to who has logged in with <code>OPS_TOKEN</code> (set it
              in <code>.env</code>), or by <code>npx kit quarantine show ${row.id}</code>.
            </p>`
        : html`<h2>As text</h2>
            <pre tabindex="0">${new TextDecoder().decode(body.subarray(0, SHOWN_BYTES))}</pre>
            <h2>As bytes</h2>
            <pre tabindex="0">${hex(body.subarray(0, SHOWN_BYTES / 4))}</pre>
            ${body.length > SHOWN_BYTES / 4 ? html`<p class="soft">Cut short. All of it: <code>npx kit quarantine show ${row.id}</code></p>` : null}`
    }
    ${may.change ? action('/refused/retry', 'Read again', hidden('id', row.id)) : null}
    <p><a href="/refused">All that was refused</a></p>`;
}

/** What became of rows that were read again, in words. */
export function reread(outcomes: (Accepted | undefined)[]): string {
  const of = (verdict: string): number => outcomes.filter((one) => one?.verdict === verdict).length;
  return `Read again: ${of('new')} became events, ${of('duplicate')} were known, ${of('quarantined')} are still unreadable.`;
}

/** Offset, sixteen bytes, and those of them that are visible. */
export function hex(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const pairs = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const seen = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${pairs.padEnd(47)}  ${seen}`);
  }
  return lines.join('\n');
}
