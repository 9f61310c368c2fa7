// The list of crashes of processes that run handlers.
import { expect, test } from 'vitest';
import { addCrash } from '../../src/processes/crashes.ts';
import type { Crash } from '../../src/store/keep.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const orphan = (key: string, alone = false) => ({ handler: 'answer', key, attempt: 1, alone });

test('E42: the list is bounded, with the newest crash first', () => {
  let crashes: Crash[] = [];
  for (let n = 0; n < 100; n++) crashes = addCrash(crashes, [orphan(`c:${n}`, true)], 'SIGSEGV', NOW + n);
  expect(crashes).toHaveLength(20);
  expect(crashes[0]).toMatchObject({ task: { key: 'c:99' }, count: 1 });
  const many = Array.from({ length: 32 }, (_, n) => orphan(`i:${n}`));
  expect(addCrash(crashes, many, 'SIGSEGV', NOW).filter(({ task }) => task?.key.startsWith('i:'))).toHaveLength(5);
});
