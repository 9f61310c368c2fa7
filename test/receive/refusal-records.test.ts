// What is kept of refused deliveries, for people to look at.
import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { createRefusalRecords } from '../../src/receive/refusal-records.ts';
import type { Refusal } from '../../src/store/keep.ts';

test('how far the clocks differ is not told by a delivery that had to wait for the store', () => {
  const now = Date.UTC(2026, 0, 1);
  let kept: Record<string, Refusal[]> = {};
  const groupCommit = { setState: (_: string, fact: unknown) => void (kept = JSON.parse(String(fact)) as typeof kept) };
  const refusals = createRefusalRecords({
    groupCommit,
    clock: { now: () => now, monotonic: () => now },
    prefix: 'X-Svc-',
  });
  const request = { headers: { 'x-svc-timestamp': String(now / 1000 - 8) } } as unknown as IncomingMessage;
  refusals.note('bad_signature', request);
  refusals.note('store', request);
  expect(kept['bad_signature']?.[0]?.skewSeconds).toBe(-8);
  expect(kept['store']?.[0]?.skewSeconds).toBeNull();
});
