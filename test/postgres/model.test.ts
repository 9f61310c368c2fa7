// The models of identity and order (test/prove/inputs), beside a PostgreSQL store. A process that dies leaves its
// connection behind.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { interleavings } from '../prove/inputs/interleavings.ts';
import { processOf, type Kit } from '../prove/inputs/kit.ts';
import { kind as postgres } from './kind.ts';

const CASES = 60;

function openKit(): Kit {
  const folder = mkdtempSync(join(tmpdir(), 'kit-model-'));
  const path = join(folder, 'events.db');
  const main = postgres.open(path, { owner: true });
  const opened = [main];
  const { query, exec, close } = postgres.queries(path);
  return {
    owner: main.processes,
    events: main.ingest,
    async start() {
      const boot = await main.processes.nextBoot();
      // An event that is older than the store would be history.
      exec(`update state set value = '0' where name = 'born'`);
      const process = postgres.open(path);
      opened.push(process);
      return processOf(process.work, boot);
    },
    query,
    close() {
      close();
      for (const one of opened) one.close();
      rmSync(folder, { recursive: true });
    },
  };
}

test('any interleaving of webhook, replay and stream: one row, one completion, lane order', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const { seen, violations } = await interleavings({ seed, cases: CASES, short: true, progress() {} }, openKit);
  expect(violations, seen).toEqual([]);
  expect(seen).toContain(`${CASES} cases`);
});
