// The text of the alarm about crashes, and the counts at which it is posted again.
import { expect, test } from 'vitest';
import { NOTHING_SEEN } from '../../../src/alarms/rules/observation.ts';
import { PROCESSES } from '../../../src/alarms/rules/processes.ts';
import { evaluate } from '../../../src/alarms/rules/rule.ts';
import { addCrash } from '../../../src/processes/crashes.ts';
import type { Crash } from '../../../src/store/keep.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const orphan = (key: string, alone = false) => ({ handler: 'answer', key, attempt: 1, alone });
const died = (crashes: Crash[], run_crashes = 3) =>
  evaluate(PROCESSES, { ...NOTHING_SEEN, crashes, recent: { run_crashes } }).get('run_crashing');
const words = (crashes: Crash[], count?: number) => died(crashes, count)?.detail ?? '';

test('E42: the alarm names the task that was alone when its process died, with the exit and the number of crashes', () => {
  let crashes: Crash[] = [];
  crashes = addCrash(crashes, [orphan('c:1'), orphan('c:2'), orphan('c:3')], 'exit code 7', NOW);
  expect(words(crashes)).toMatch(/handler answer on event c:1 was among the tasks at work.*exit code 7/i);
  for (let n = 0; n < 3; n++) crashes = addCrash(crashes, [orphan('c:2', true)], 'SIGSEGV', NOW + n);
  crashes = addCrash(crashes, [orphan('c:3'), orphan('c:4')], 'SIGKILL', NOW + 9);
  expect(words(crashes, 145)).toMatch(
    /died 145 times.*Handler answer on event c:2 ended it 4 times, last with SIGSEGV: npx kit explain c:2 /,
  );
});

test('E42: a task that ended a process hours ago is not named as the cause of a new crash', () => {
  let crashes = addCrash([], [orphan('c:1', true)], 'SIGSEGV', NOW - 7_200_000);
  crashes = addCrash(crashes, [orphan('c:8'), orphan('c:9')], 'exit code 1', NOW);
  expect(words(crashes)).toMatch(/c:8 was among/);
  expect(words(addCrash(crashes, [], 'SIGABRT', NOW + 1))).toMatch(
    /SIGABRT, while no handler was at work: see the log/,
  );
  expect(words([])).toMatch(/See why in the log \(run died\)$/);
});

test('E41: the level of run_crashing rises at ten times as many crashes', () => {
  expect([3, 9, 10, 99, 100].map((count) => died([], count)?.level)).toEqual([1, 1, 2, 2, 3]);
});
