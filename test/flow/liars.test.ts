// Whatever the service lies about: no event is skipped, the call budget holds, `status` names what is wrong in words, and
// afterwards nothing is missing.
import { describe, expect, test } from 'vitest';
import type { Fault, FaultName } from '../../src/tools/simulator/faults.ts';
import { BUDGET, LIARS, live, pageOf, refused } from './lying.ts';

describe('a service that lies for ten minutes', () => {
  test.each(Object.entries(LIARS))('%s', async (name, words) => {
    const told = await live(name as FaultName);
    expect(told.words.join('\n')).toMatch(words);
    expect(told.unaided, 'it goes on by itself').toBe(true);
    expect(told.passed, 'behind the watermark, and nowhere').toEqual([]);
    expect(told.gaps).toEqual([]);
    holdsWhole(told);
  });

  test.each([
    ['401', refused(401, 'API_AUTH_REVOKED'), /401 UNAUTHENTICATED \(API_AUTH_REVOKED\)/],
    ['403', refused(403, 'API_KEY_IP_FORBIDDEN'), /403 FORBIDDEN \(API_KEY_IP_FORBIDDEN\)/],
  ] satisfies [string, Fault, RegExp][])(
    '%s: it has stopped, and says so, until somebody asks',
    async (_, fault, words) => {
      const told = await live(fault);
      expect(told.words).toEqual([expect.stringMatching(words)]);
      expect(told.words[0]).toMatch(/^stopped/);
      expect(told.unaided).toBe(false);
      expect(told.passed).toEqual([]);
      holdsWhole(told);
    },
  );

  test('F42: the cursor is said to have expired, and is accepted again: the gap that had no end is closed', async () => {
    const told = await live((truth) => pageOf(truth, { events: [], reset_required: true }));
    expect(told.words.join()).toMatch(/the cursor has expired, and no newer one is known yet that the service accepts/);
    expect(told.unaided).toBe(true);
    expect(told.passed).toEqual([]);
    expect(told.gaps).toMatchObject([{ upTo: null, closedBy: expect.stringContaining('nothing is missing') }]);
    holdsWhole(told);
  });

  test('F42: pages with items that ask for a reset are kept, and each is a gap', async () => {
    const told = await live((truth) => pageOf(truth, { reset_required: true }));
    expect(told.gaps).toHaveLength(10);
    expect(told.passed).toEqual([]);
    holdsWhole(told);
  });

  test('F45: what becomes visible two minutes late is found by reading once more, and said', async () => {
    const told = await live('late');
    expect(told.passed, 'it cannot be known yet').not.toEqual([]);
    expect(told.words.join()).toMatch(/became visible late/);
    expect(told.unaided).toBe(true);
    holdsWhole(told);
  });
});

/** Afterwards nothing is missing, and the budget held all the time. */
function holdsWhole({ missing, most, status }: Awaited<ReturnType<typeof live>>): void {
  expect(missing).toEqual([]);
  expect(most, 'calls in any 60 seconds').toBeLessThanOrEqual(BUDGET);
  expect(status.reconcile).toMatchObject({ state: 'idle', reason: null });
}
