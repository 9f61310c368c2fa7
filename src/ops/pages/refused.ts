// The screens of refused and quarantined deliveries, with enough detail to tell a wrong secret from forged deliveries.
import type { SignatureJudgement } from '../../receive/bad-signatures.ts';
import { causeOf, refusalsIn } from '../../receive/causes.ts';
import type { Accepted } from '../../store/ingest.ts';
import type { Refusal } from '../../store/keep.ts';
import type { Quarantined, ReadStore, Status } from '../../store/read.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, count, figures, hidden, span, table, time } from './shell/parts.ts';

export interface Refused {
  status: Status;
  judgement: SignatureJudgement;
  counters: Record<string, number>;
  refusals: Record<string, Refusal[]>;
  quarantine: Quarantined[];
  mayChange: boolean;
}

export function refused({ status, judgement, counters, refusals, quarantine, mayChange }: Refused): Html {
  const { badSignatures, badSince, lastBadAt } = status.failures;
  return html`<p class="health ${judgement.mismatch ? 'warn' : 'good'}">${judgement.words}.</p>
    ${figures([
      { name: 'Last good delivery', value: time(status.lastDeliveryAt) },
      {
        name: 'Bad signatures since then',
        value: badSignatures,
        note: badSignatures > 0 ? html`since ${time(badSince)}` : html`last ${time(lastBadAt)}`,
        tone: judgement.mismatch ? 'warn' : undefined,
      },
      {
        name: 'Outside the time window',
        value: counters['refused.clock_skew'] ?? 0,
        note: 'signature right: a clock is wrong',
      },
      { name: 'Quarantined', value: status.quarantined },
    ])}
    ${byCause(counters)} ${lastOf(refusals)}
    <h2>Quarantine</h2>
    <p class="soft">
      The signature is right, but the bytes are no readable event. They are kept. After a change of
      <code>src/wire</code> or <code>src/events.ts</code>, read them again.
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

function byCause(counters: Refused['counters']): Html {
  const causes = [...refusalsIn(counters)].toSorted((a, b) => b[1] - a[1]);
  return html`<h2>Refused, by cause</h2>
    ${table(
      'Refused, by cause',
      ['cause', '#in all', 'what it means'],
      causes.map(([cause, n]) => [code(cause), n, causeOf(cause)?.page ?? null]),
      'Nothing was refused yet.',
    )}`;
}

function lastOf(refusals: Refused['refusals']): Html {
  const all = Object.entries(refusals).flatMap(([cause, list]) => list.map((one) => ({ cause, ...one })));
  return html`<h2>The last of each cause</h2>
    ${table(
      'The last refusals of each cause',
      ['at', 'cause', 'headers of a delivery', '#clock differs', 'user agent', '#bytes'],
      all
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
    )}`;
}

const SHOWN_BYTES = 16 * 1024;

/** The screen of one quarantined row. If it is revealed, its body is shown as text and as hex. */
export async function quarantined(
  { ctx, mayChange, mayReveal }: Visit,
  read: Pick<ReadStore, 'quarantined'>,
  isRevealed: boolean,
): Promise<Html | undefined> {
  const row = await read.quarantined(Number(ctx['params']['id']) || 0);
  if (!row) return undefined;
  const { body } = row;
  return html`${figures([
      { name: 'Why', value: row.reason },
      { name: 'Received', value: time(row.receivedAt) },
      { name: 'Origin', value: row.origin },
      { name: 'Cursor', value: code(row.cursor) },
      { name: 'Bytes', value: row.bytes },
    ])}
    ${
      !isRevealed
        ? mayReveal
          ? action(`/refused/${row.id}/body`, 'Reveal the bytes: this is logged', null)
          : html`<p class="empty">
              The bytes may hold personal data. To see them, log in with <code>OPS_TOKEN</code> (set it in
              <code>.env</code>), or run <code>npx kit quarantine show ${row.id}</code>.
            </p>`
        : html`<h2>As text</h2>
            <pre tabindex="0">${new TextDecoder().decode(body.subarray(0, SHOWN_BYTES))}</pre>
            <h2>As bytes</h2>
            <pre tabindex="0">${hex(body.subarray(0, SHOWN_BYTES / 4))}</pre>
            ${body.length > SHOWN_BYTES / 4 ? html`<p class="soft">Cut short. For all bytes: <code>npx kit quarantine show ${row.id}</code></p>` : null}`
    }
    ${mayChange ? action('/refused/retry', 'Read again', hidden('id', row.id)) : null}
    <p><a href="/refused">All refused deliveries</a></p>`;
}

/** The message after quarantined rows were read again: how many had which outcome. */
export function reread(outcomes: (Accepted | undefined)[]): string {
  const of = (verdict: string): number => outcomes.filter((one) => one?.verdict === verdict).length;
  return `Read again: ${of('new')} became events, ${of('duplicate')} were known, ${of('quarantined')} are still unreadable.`;
}

/** Each line holds the offset, sixteen bytes, and their visible ASCII characters. */
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
