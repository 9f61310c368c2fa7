// Plants faults, one at a time, and asks whether a named test sees each. It works on a copy.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Options, Row } from './report.ts';

interface Fault {
  rule: string;
  file: string;
  from: string;
  to: string;
  test: string;
}

const STORE = 'src/store/sqlite';
const of = (rule: string, file: string, from: string, to: string, test: string): Fault => ({
  rule,
  file,
  from,
  to,
  test,
});

const FAULTS: Fault[] = [
  of(
    'autoincrement left out',
    `${STORE}/schema.sql`,
    'seq integer primary key autoincrement',
    'seq integer primary key',
    'store/ingest',
  ),
  of(
    'due at the least of the tasks',
    `${STORE}/lanes.ts`,
    'state = 0 order by cursor limit 1)',
    'state = 0 order by due_at limit 1)',
    'store/turn',
  ),
  of(
    'the claim’s number not checked',
    `${STORE}/settle.ts`,
    'boot = @boot and claim = @claim',
    'boot = @boot and @claim > 0',
    'store/turn',
  ),
  of('a claim beyond what is fanned out', `${STORE}/turn.ts`, 'Math.min(now, behindAt ?? now)', 'now', 'store/turn'),
  of(
    'an orphan that goes on',
    `${STORE}/boots.ts`,
    'if (standing.get(boot) === undefined)',
    'if (boot < 0)',
    'store/boots',
  ),
  of(
    'a lane row dropped above the floor',
    'src/operations/store/sqlite-prune.ts',
    'done_cursor <= cast(? as integer)',
    'cast(? as integer) is not null',
    'store/prune',
  ),
  of(
    'the floor applied to webhooks',
    `${STORE}/ingest.ts`,
    'isReplayed && cursor !== null && batch.floor',
    'cursor !== null && batch.floor',
    'store/ingest',
  ),
  of(
    'a webhook’s cursor moves the watermark',
    `${STORE}/ingest.ts`,
    'if (proves) this.#prove(proves);',
    "if (proves) this.#prove(proves);\n      for (const one of readings) if ('event' in one && one.event.cursor) this.#state.setCursor('watermark', one.event.cursor);",
    'store/ingest',
  ),
  of(
    'deaths counted at SIGTERM',
    `${STORE}/settle.ts`,
    'boot = null, claim = null, claimed_to = null,',
    'claimed_to = claimed_to,',
    'store/boots',
  ),
  of(
    'text order of cursors',
    `${STORE}/claim.ts`,
    'order by cursor limit 1 offset',
    'order by cast(cursor as text) limit 1 offset',
    'store/model',
  ),
  of(
    'strict order not held back',
    `${STORE}/turn.ts`,
    "return order === 'window' ? receivedAt + windowMs : NEVER;",
    'return receivedAt;',
    'store/turn',
  ),
  of('no window', `${STORE}/turn.ts`, 'receivedAt + windowMs', 'receivedAt', 'store/turn'),
  of('late is forgotten', `${STORE}/claim.ts`, 't.cursor < l.done_cursor)', 't.cursor < 0)', 'store/turn'),
  of(
    'steps aside without a word',
    `${STORE}/settle.ts`,
    'set lane = ?, late = 1',
    'set lane = ?, late = 0',
    'store/turn',
  ),
  of(
    'suspects in the live process',
    `${STORE}/claim.ts`,
    'this.#claim(boot, first, room, upTo, 0)',
    'this.#claim(boot, first, room, upTo, 1)',
    'store/turn',
  ),
  of('a suspect in a chain', `${STORE}/claim.ts`, '(isOpen && crashes === 0)', 'isOpen', 'store/model'),
  of('a suspect that steps aside is none', `${STORE}/settle.ts`, 'this.#lanes.touch(own);', '', 'store/model'),
  of('a death weighs nothing', `${STORE}/boots.ts`, 'ofRun: 4', 'ofRun: 0', 'store/boots'),
  of(
    'lanes of dead boots stay claimed',
    `${STORE}/boots.ts`,
    'giveBack(boot);\n      }\n      return',
    'remove.run(boot);\n      }\n      return',
    'store/boots',
  ),
  of(
    'a conflict taken for a duplicate',
    `${STORE}/ingest.ts`,
    '!this.#sameData(event, known)',
    'false',
    'store/ingest',
  ),
  of('an erased row contradicts', `${STORE}/ingest.ts`, 'if (known.erased) return false;', '', 'store/ingest'),
  of(
    'one bad reading refuses all',
    `${STORE}/ingest.ts`,
    'batch.days.clear();\n    }',
    'throw error;\n    }',
    'store/ingest',
  ),
  of(
    'a position that moves twice',
    `${STORE}/lanes.ts`,
    'where id = @handler and position = @from',
    'where id = @handler and @from >= 0',
    'store/model',
  ),
  of(
    'prune above the position',
    'src/operations/store/sqlite-prune.ts',
    'seq <= (select coalesce(min(position), 9e15) from handlers)',
    'seq > 0',
    'store/prune',
  ),
  of(
    'prune above the watermark',
    'src/operations/store/sqlite-prune.ts',
    'e.cursor <= cast(@watermark as integer)',
    '@watermark is not null',
    'store/prune',
  ),
  of(
    'prune under a waiting task',
    'src/operations/store/sqlite-prune.ts',
    't.event = e.seq and t.state = 0) order',
    't.event = e.seq and t.state = 9) order',
    'store/prune',
  ),
  of('a paused handler works', `${STORE}/turn.ts`, 'if (row.paused || ', 'if (', 'store/turn'),
  of(
    'a chain that runs on after a failed task',
    'src/run/pool.ts',
    "if (!outcome || outcome.as === 'again') break;",
    'if (!outcome) break;',
    'run/runner',
  ),
  of(
    'a lane function that throws stops the page',
    'src/run/fan-out.ts',
    '} catch (error) {',
    '} catch (error) {\n      if (handler) throw error;',
    'run/runner',
  ),
  of(
    'a lane function that spins stops run',
    'src/run/limited.ts',
    'script.runInThisContext({ timeout: ms })',
    'work()',
    'run/runner',
  ),
  of(
    'user code in the write transaction',
    'src/run/fan-out.ts',
    'const LIMIT_MS = { page: 1_000, event: 100, alone: 2_000 };',
    'const LIMIT_MS = { page: 1_000_000, event: 100, alone: 2_000 };',
    'run/runner',
  ),
  of(
    'the last places are taken',
    'src/run/places.ts',
    'places - taken - Math.min(idle, Math.floor(places / 2))',
    'places - taken',
    'run/runner',
  ),
];

export async function mutate({ progress }: Options): Promise<Row[]> {
  const root = join(import.meta.dirname, '../..');
  const copy = join(root, 'data', `mutate-${process.pid}`);
  mkdirSync(copy, { recursive: true });
  const violations: string[] = [];
  try {
    for (const name of ['src', 'test', 'package.json', 'vitest.config.ts'])
      cpSync(join(root, name), join(copy, name), { recursive: true });
    symlinkSync(join(root, '../node_modules'), join(copy, 'node_modules'));
    for (const { rule, file, from, to, test } of FAULTS) {
      const path = join(copy, file);
      const source = readFileSync(path, 'utf8');
      if (!source.includes(from)) violations.push(`${rule}: its text is no longer in ${file}`);
      writeFileSync(path, source.replace(from, to));
      const { status } = spawnSync('npx', ['vitest', 'run', `test/${test}.test.ts`], {
        cwd: copy,
        env: { ...process.env, SEED: '7', RUNS: '150' },
        timeout: 90_000,
      });
      writeFileSync(path, source);
      if (status === 0) violations.push(`${rule}: test/${test}.test.ts does not see it`);
      progress(`${status === 0 ? 'NOT SEEN' : 'seen'}  ${rule}`);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  return [{ what: 'planted faults', seen: `${FAULTS.length} faults`, violations }];
}
