// The strictest day: the service refuses everything that the contract lets it refuse. Nothing that it can show or has
// delivered is lost, and the kit says each refusal in words.
import { beforeAll, describe, expect, test } from 'vitest';
import { compareCursors, isBehind } from '../../src/wire/cursor.ts';
import { liveStrictestDay, type Day, type Handled } from './strictest-day.ts';

const UNSEEN = /failure_run: .*arrived with an attempt number above 1: earlier attempts failed/;
const ABANDONED = /failure_run: 8 deliveries in a row were not answered with 2xx \(8 × clock_skew\)/;
const HOLE = (reason: string): RegExp => new RegExp(`"refresh, ${reason}".*the stream left events out; replay fetches`);

/** What the service refused, where the kit said so, and how. */
const REFUSALS: [refusal: string, place: keyof Day['said'], words: RegExp][] = [
  // Deliveries (contract 3.2, 3.3, 6.3).
  ['refused no_signature', 'log', /refused: no readable v1= signature/],
  ['refused bad_signature', 'log', /refused: no secret of ours signed this/],
  ['refused far_timestamp', 'log', /refused: the timestamp is more than a day off/],
  ['refused clock_skew', 'log', /the signature is valid, but outside the time window/],
  ['both signatures', 'status', /secret 1 has signed \d+/],
  ['answer 302', 'alarm', UNSEEN],
  ['answer 500', 'alarm', UNSEEN],
  ['answer timeout', 'alarm', UNSEEN],
  ['answer unreachable', 'alarm', UNSEEN],
  ['answer 401', 'alarm', /secret_mismatch: .*match no secret in WEBHOOK_SECRET/],
  ...[1, 2, 3, 4, 5, 6, 7, 8].map((attempt): (typeof REFUSALS)[number] => [`attempt ${attempt}`, 'alarm', ABANDONED]),
  ['abandoned', 'alarm', ABANDONED],
  ['stopped', 'alarm', /failure_run: 15 deliveries in a row/],
  ['disabled by failures', 'alarm', /15 in a row the service has switched the webhook off: enable it there as well/],
  ['disabled', 'alarm', /webhook_silent: .*the webhook is switched off, was removed/],
  ['key revoked, delivery stopped', 'alarm', /reconcile_stopped: .*register the webhook again with the new key/],
  // Calls (contract 7.2, 7.4, 8).
  ['401 API_AUTH_REQUIRED', 'error', /401 UNAUTHENTICATED \(API_AUTH_REQUIRED\)$/m],
  ['401 API_AUTH_REVOKED', 'error', /401 UNAUTHENTICATED \(API_AUTH_REVOKED\)$/m],
  ['401 API_AUTH_REVOKED', 'status', /reconcile stopped: ReplayEvents: 401 UNAUTHENTICATED \(API_AUTH_REVOKED\)/],
  ['403 RPC_METHOD_FORBIDDEN', 'error', /ListCampaigns: 403 FORBIDDEN \(RPC_METHOD_FORBIDDEN\)$/m],
  ['403 API_KEY_IP_FORBIDDEN', 'status', /reconcile stopped: ReplayEvents: 403 FORBIDDEN \(API_KEY_IP_FORBIDDEN\)/],
  ['404 RPC_METHOD_NOT_FOUND', 'error', /ListNothing: 404 NOT_FOUND \(RPC_METHOD_NOT_FOUND\)$/m],
  ['404 SESSION_NOT_FOUND', 'error', /ListMessages: 404 NOT_FOUND \(SESSION_NOT_FOUND\)$/m],
  ['400 EVENT_CURSOR_INVALID', 'error', /400 VALIDATION_FAILED \(EVENT_CURSOR_INVALID\)$/m],
  ['400 EVENT_CURSOR_INVALID', 'log', /the service does not know the cursor that was asked for/],
  ['400 REQUEST_INVALID', 'error', /400 VALIDATION_FAILED \(REQUEST_INVALID\)$/m],
  ['400 RPC_REQUEST_INVALID', 'error', /400 VALIDATION_FAILED \(RPC_REQUEST_INVALID\)$/m],
  ['413 PAYLOAD_TOO_LARGE', 'error', /413 VALIDATION_FAILED \(PAYLOAD_TOO_LARGE\)$/m],
  ['428 BILLING_QUOTE_REQUIRED', 'error', /428 PAYMENT_REQUIRED \(BILLING_QUOTE_REQUIRED\)$/m],
  ['409 BILLING_QUOTE_EXPIRED', 'error', /409 CONFLICT \(BILLING_QUOTE_EXPIRED\)$/m],
  ['402 PAYMENT_REQUIRED', 'error', /402 PAYMENT_REQUIRED$/m],
  ['429 RATE_LIMITED', 'error', /429 RATE_LIMITED \(RATE_LIMITED\)$/m],
  ['429 API_KEY_RATE_LIMITED', 'error', /429 RATE_LIMITED \(API_KEY_RATE_LIMITED\)$/m],
  ['500 INTERNAL', 'error', /500 INTERNAL, uncertain$/m],
  ['503 UNAVAILABLE', 'error', /503 UNAVAILABLE, uncertain$/m],
  ['503 UNAVAILABLE', 'log', /a call of ReplayEvents failed; retrying/],
  ['503 OUTCOME_UNCERTAIN', 'error', /503 UNAVAILABLE \(OUTCOME_UNCERTAIN\), uncertain$/m],
  ['504 RPC_DEADLINE_EXCEEDED', 'error', /504 UNAVAILABLE \(RPC_DEADLINE_EXCEEDED\), uncertain$/m],
  ['502 without envelope', 'error', /502 UNAVAILABLE, uncertain$/m],
  ['reset_required', 'alarm', /gap_open: .*the service can no longer replay what came after cursor/],
  ['empty page', 'status', /replay showed 100 empty pages in a row that promise more/],
  // The stream (contract 3.4, 4.4, 6.1).
  ['stream 403 FORBIDDEN', 'status', /stream open: without campaign and warm-up events, which this key may not read/],
  ['stream 400 EVENT_CURSOR_INVALID', 'log', /the stream does not know our cursor: continuing with new events/],
  [
    'stream 429 RATE_LIMITED',
    'log',
    /GET \/events: 429 RATE_LIMITED \(RATE_LIMITED\).*the stream was lost; reconnecting/,
  ],
  ['stream 503 EVENT_STREAM_UNAVAILABLE', 'log', /GET \/events: 503 UNAVAILABLE \(EVENT_STREAM_UNAVAILABLE\)/],
  ['stream refresh cursor_expired', 'log', HOLE('cursor_expired')],
  ['stream refresh buffer_limit', 'log', HOLE('buffer_limit')],
  ['stream refresh replay_limit', 'log', HOLE('replay_limit')],
  ['stream refresh replay_incomplete', 'log', HOLE('replay_incomplete')],
  ['stream refresh replay_unavailable', 'log', HOLE('replay_unavailable')],
  ['stream end', 'log', /"the service ended it".*the stream was lost; reconnecting/],
  ['stream error API_AUTH_REVOKED', 'status', /stream stopped: GET \/events: 401 UNAUTHENTICATED \(API_AUTH_REVOKED\)/],
];

describe('a day on which the service refuses everything that it may', () => {
  let day: Day;
  beforeAll(async () => {
    day = await liveStrictestDay();
  }, 120_000);

  test.each(REFUSALS)('%s: said in the %s', (refusal, place, words) => {
    expect([...day.happened]).toContain(refusal);
    expect(day.said[place]).toMatch(words);
  });

  test('every refusal of the day is in the table', () => {
    const known = new Set(REFUSALS.map(([refusal]) => refusal));
    expect([...day.happened].filter((refusal) => !known.has(refusal))).toEqual([]);
  });

  test('every event that was shown or delivered is stored once', () => {
    expect(new Set(day.stored).size).toBe(day.stored.length);
    const stored = new Set(day.stored);
    expect([...day.shown].filter((cursor) => !stored.has(cursor))).toEqual([]);
  });

  test('every event that is not stored is in a gap, and there are some', () => {
    const stored = new Set(day.stored);
    const lost = day.readable.filter((cursor) => !stored.has(cursor));
    const inGap = (cursor: (typeof lost)[number]): boolean =>
      day.gaps.some(
        ({ after, upTo }) => BigInt(cursor) > BigInt(after) && upTo !== null && BigInt(cursor) < BigInt(upTo),
      );
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.filter((cursor) => !inGap(cursor))).toEqual([]);
    expect(day.state).toBe('idle');
  });

  test.each(['strict', 'window', 'arrival'] as const)('%s: every stored event is handled once', (order) => {
    const cursors = day.handled[order].map(({ cursor }) => cursor);
    expect(cursors.toSorted(compareCursors)).toEqual(day.stored);
  });

  test.each(['strict', 'window'] as const)('%s: each conversation is in order, apart from marked events', (order) => {
    for (const lane of Map.groupBy(day.handled[order], ({ lane: name }) => name).values())
      expect(inversions(lane)).toEqual([]);
  });

  test('what happened while the webhook was off is not delivered later: replay brings it', () => {
    expect(day.backfilled).toEqual([]);
  });
});

function inversions(lane: Handled[]): string[] {
  const unmarked = lane.filter(({ marked }) => !marked);
  return unmarked.flatMap(({ cursor }, i) => {
    const next = unmarked[i + 1];
    return next && !isBehind(cursor, next.cursor) ? [`${cursor} before ${next.cursor}`] : [];
  });
}
