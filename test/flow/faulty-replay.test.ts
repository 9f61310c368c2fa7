// Replay that gives false answers: no event is skipped, the call budget holds, `status` names the fault, and in the
// end no event is missing.
import { describe, expect, test } from 'vitest';
import type { Fault, FaultName } from '../../src/tools/simulator/faults.ts';
import { sampled } from '../cases.ts';
import { onPostgres } from '../stores.ts';
import { BUDGET, STATUS_WORDS, live, pageOf, refused } from './faulty-replay.ts';

const FAULTS = Object.entries(STATUS_WORDS);

describe('a service with a fault for ten minutes', () => {
  test.each(onPostgres ? sampled(FAULTS) : FAULTS)('%s', async (name, words) => {
    const told = await live(name as FaultName);
    expect(told.words.join('\n')).toMatch(words);
    expect(told.unaided, 'it resumes without help').toBe(true);
    expect(told.passed, 'below the watermark and not stored').toEqual([]);
    expect(told.gaps).toEqual([]);
    holdsWhole(told);
  });

  test.each([
    ['401', refused(401, 'API_AUTH_REVOKED'), /401 UNAUTHENTICATED \(API_AUTH_REVOKED\)/],
    ['403', refused(403, 'API_KEY_IP_FORBIDDEN'), /403 FORBIDDEN \(API_KEY_IP_FORBIDDEN\)/],
  ] satisfies [string, Fault, RegExp][])(
    '%s: reconciliation stops, says so, and resumes only when a person asks',
    async (_, fault, words) => {
      const told = await live(fault);
      expect(told.words).toEqual([expect.stringMatching(words)]);
      expect(told.words[0]).toMatch(/^stopped/);
      expect(told.unaided).toBe(false);
      expect(told.passed).toEqual([]);
      holdsWhole(told);
    },
  );

  test('F42: the service refuses the cursor as expired, then accepts it again: the open gap is closed', async () => {
    const told = await live((truth) => pageOf(truth, { events: [], reset_required: true }));
    expect(told.words.join()).toMatch(/the cursor has expired, and no newer one is known yet that the service accepts/);
    expect(told.unaided).toBe(true);
    expect(told.passed).toEqual([]);
    expect(told.gaps).toMatchObject([{ upTo: null, closedBy: expect.stringContaining('nothing is missing') }]);
    holdsWhole(told);
  });

  test('F42: items of pages with reset_required are stored, and each page leaves a gap', async () => {
    const told = await live((truth) => pageOf(truth, { reset_required: true }));
    expect(told.gaps).toHaveLength(10);
    expect(told.passed).toEqual([]);
    holdsWhole(told);
  });

  test('F45: the overlap pass finds events that become visible two minutes late, and status says so', async () => {
    const told = await live('late');
    expect(told.passed, 'it cannot be known yet').not.toEqual([]);
    expect(told.words.join()).toMatch(/became visible late/);
    expect(told.unaided).toBe(true);
    holdsWhole(told);
  });
});

/** In the end no event is missing, and the budget was never exceeded. */
function holdsWhole({ missing, most, status }: Awaited<ReturnType<typeof live>>): void {
  expect(missing).toEqual([]);
  expect(most, 'calls in any 60 seconds').toBeLessThanOrEqual(BUDGET);
  expect(status.reconcile).toMatchObject({ state: 'idle', reason: null });
}
