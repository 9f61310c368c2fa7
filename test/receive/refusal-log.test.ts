// How refusals are shown to people: the log, and the records of refused deliveries.
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createRefusalLog, createRefusalRecords } from '../../src/receive/refusal-log.ts';
import type { Refusal } from '../../src/store/keep.ts';
import { createClock } from './harness.ts';

describe('the log of refusals', () => {
  test('names the first refusal of a cause at once, and the number of later ones at most every ten seconds', () => {
    const clock = createClock();
    const lines: Record<string, unknown>[] = [];
    const refusalLog = createRefusalLog(
      pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
      clock,
    );
    for (let n = 0; n < 100; n++) refusalLog.note('bad_signature', { status: 401 });
    expect(lines).toMatchObject([{ cause: 'bad_signature', status: 401 }]);
    expect(lines[0]).not.toHaveProperty('more');
    clock.at += 9_999;
    refusalLog.note('bad_signature', {});
    expect(lines).toHaveLength(1);
    clock.at += 1;
    refusalLog.note('bad_signature', {});
    refusalLog.note('no_signature', {});
    expect(lines.slice(1)).toMatchObject([{ cause: 'bad_signature', more: 100 }, { cause: 'no_signature' }]);
  });

  test('accepts any thrown value', () => {
    const lines: string[] = [];
    const clock = createClock();
    const refusalLog = createRefusalLog(pino({}, { write: (line: string) => void lines.push(line) }), clock);
    const bomb = Object.defineProperty(new Error('x'), 'message', {
      get(): string {
        throw new Error('bomb');
      },
    });
    const all = [bomb, Object.freeze(new Error('frozen')), null, 'text', Symbol('s'), Object.create(null)];
    for (const thrown of all) {
      refusalLog.note('broken_answer', {}, thrown);
      clock.at += 10_000;
    }
    expect(lines).toHaveLength(6);
  });
});

test('the record of a delivery that waited for the store has no clock skew', () => {
  const clock = createClock();
  let kept: Record<string, Refusal[]> = {};
  const groupCommit = { setState: (_: string, fact: unknown) => void (kept = JSON.parse(String(fact)) as typeof kept) };
  const record = createRefusalRecords(groupCommit, clock, 'X-Svc-');
  const headers = { 'x-svc-timestamp': String(clock.at / 1000 - 8) };
  record('bad_signature', { headers });
  record('store', { headers });
  expect(kept['bad_signature']?.[0]?.skewSeconds).toBe(-8);
  expect(kept['store']?.[0]?.skewSeconds).toBeNull();
});
