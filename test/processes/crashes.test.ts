// How processes that run handlers have died: what is kept of it, and in which words people hear of it.
import { expect, test } from 'vitest';
import { addCrash } from '../../src/processes/crashes.ts';
import { judge } from '../../src/alarms/rules.ts';
import { levelOf } from '../../src/alarms/levels.ts';
import { UNREAD } from '../../src/keep/view.ts';
import type { Crash } from '../../src/store/keep.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const orphan = (key: string, alone = false) => ({ handler: 'answer', key, attempt: 1, alone });
const facts = (crashes: Crash[], run_crashes = 3) => ({
  now: NOW,
  status: UNREAD,
  grown: { run_crashes },
  freeBytes: 1e12,
  crashes,
});
const words = (crashes: Crash[], count?: number) => judge(facts(crashes, count)).get('run_crashing') ?? '';

test('E42: the task that was alone when its process died is named with how it ended and how often', () => {
  let crashes: Crash[] = [];
  crashes = addCrash(crashes, [orphan('c:1'), orphan('c:2'), orphan('c:3')], 'exit code 7', NOW);
  expect(words(crashes)).toMatch(/handler answer on event c:1 was among the tasks at work.*exit code 7/i);
  for (let n = 0; n < 3; n++) crashes = addCrash(crashes, [orphan('c:2', true)], 'SIGSEGV', NOW + n);
  crashes = addCrash(crashes, [orphan('c:3'), orphan('c:4')], 'SIGKILL', NOW + 9);
  expect(words(crashes, 145)).toMatch(
    /died 145 times.*Handler answer on event c:2 ended it 4 times, last with SIGSEGV: npx kit explain c:2 /,
  );
});

test('E42: a task that ended a process hours ago is not blamed for what ends it now', () => {
  let crashes = addCrash([], [orphan('c:1', true)], 'SIGSEGV', NOW - 7_200_000);
  crashes = addCrash(crashes, [orphan('c:8'), orphan('c:9')], 'exit code 1', NOW);
  expect(words(crashes)).toMatch(/c:8 was among/);
  expect(words(addCrash(crashes, [], 'SIGABRT', NOW + 1))).toMatch(
    /SIGABRT, while no handler was at work: see the log/,
  );
  expect(words([])).toMatch(/See why in the log \(run died\)$/);
});

test('E42: what is kept is bounded, newest first', () => {
  let crashes: Crash[] = [];
  for (let n = 0; n < 100; n++) crashes = addCrash(crashes, [orphan(`c:${n}`, true)], 'SIGSEGV', NOW + n);
  expect(crashes).toHaveLength(20);
  expect(crashes[0]).toMatchObject({ task: { key: 'c:99' }, count: 1 });
  const many = Array.from({ length: 32 }, (_, n) => orphan(`i:${n}`));
  expect(addCrash(crashes, many, 'SIGSEGV', NOW).filter(({ task }) => task?.key.startsWith('i:'))).toHaveLength(5);
});

test('E41: the levels of dead letters and of a disk', () => {
  const dead = (count: number) =>
    levelOf('dead_letters', { ...facts([]), status: { ...UNREAD, tasks: { ...UNREAD.tasks, dead: count } } });
  expect([1, 9, 10, 99, 100, 999, 1_000, 1_322, 10_000].map(dead)).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 5]);
  const disk = (megabytes: number) => levelOf('disk_low', { ...facts([]), freeBytes: megabytes * 2 ** 20 });
  expect([511, 256, 255, 127, 2, 1, 0.5, 0].map(disk)).toEqual([1, 1, 2, 3, 8, 9, 10, 10]);
});

test('E41: run_crashing is told again at ten times as many deaths', () => {
  expect([3, 9, 10, 99, 100].map((count) => levelOf('run_crashing', facts([], count)))).toEqual([1, 1, 2, 2, 3]);
});
