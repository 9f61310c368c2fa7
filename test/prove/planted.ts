// The faults that are planted: one for each rule of the store and of run, and the test that must see it.
/** In this file of `src`, for this test. */
const planted = (file: string, test: string, ...list: [rule: string, from: string, to: string][]) =>
  list.map(([rule, from, to]) => ({ rule, from, to, file: `src/${file}`, test }));

export const FAULTS = [
  ...planted('operations/store/tasks.ts', 'store/model', [
    'a discarded head holds its lane',
    'await tx.touch(changed.map(({ lane }) => lane));',
    '',
  ]),
  ...planted('operations/store/tasks.ts', 'operations/changing', [
    'a retry without its lane',
    'await tx.touch([before.lane]);',
    '',
  ]),
  ...planted(
    'keep/prune.ts',
    'store/prune',
    [
      'a lane row dropped above the floor',
      'done_cursor <= cast(@floor as bigint)',
      'cast(@floor as bigint) is not null',
    ],
    ['prune above the position', 'seq <= (select coalesce(min(position), 9000000000000000) from handlers)', 'seq > 0'],
    ['prune above the watermark', 'e.cursor <= cast(@watermark as bigint)', '@watermark is not null'],
    ['prune under a waiting task', 't.event = e.seq and t.state = 0)`', 't.event = e.seq and t.state = 9)`'],
  ),
  ...planted('operations/store/reruns.ts', 'operations/changing', [
    'a rerun without its lane',
    'await tx.touch(lanes);',
    '',
  ]),
  ...planted(
    'run/fan-out.ts',
    'run/runner',
    [
      'a lane function that throws stops the page',
      '} catch (error) {',
      '} catch (error) {\n      if (handler) throw error;',
    ],
    [
      'lane functions without a time limit',
      'const LIMIT_MS = { page: 1_000, event: 100, alone: 2_000 };',
      'const LIMIT_MS = { page: 1_000_000, event: 100, alone: 2_000 };',
    ],
  ),
  ...planted('run/limited.ts', 'run/runner', [
    'a lane function that spins stops run',
    'script.runInThisContext({ timeout: ms })',
    'work()',
  ]),
  ...planted('run/places.ts', 'run/runner', [
    'the last places are taken',
    'places - taken - Math.min(idle, Math.floor(places / 2))',
    'places - taken',
  ]),
  ...planted('run/pool.ts', 'run/runner', [
    'a chain that runs on after a failed task',
    "if (!outcome || outcome.as === 'again') break;",
    'if (!outcome) break;',
  ]),
  ...planted(
    'store/boots.ts',
    'store/boots',
    ['a death weighs nothing', 'ofRun: 4', 'ofRun: 0'],
    ['lanes of dead boots stay claimed', 'await giveBack(tx, boot);', ''],
    ['a death of the kit weighs as one of run', 'ofKit: 1', 'ofKit: 4'],
    ['a fourth death', 'most: 12', 'most: 16'],
    ['one death judges every process', '(role = @role or @all = 1)', '(role = @role or @all < 2)'],
    ['an orphan that notes', 'if (!row) throw', 'if (boot < 0) throw'],
  ),
  ...planted('store/boots.ts', 'store/model', [
    'a dead letter passes nothing',
    'await tx.run(PASS, { ...task, lane });',
    '',
  ]),
  ...planted(
    'store/sqlite/claim.ts',
    'store/model',
    ['text order of cursors', 'order by cursor limit 1 offset', 'order by cast(cursor as text) limit 1 offset'],
    ['a rerun is late', 't.rerun = 0 and (', '('],
  ),
  ...planted(
    'store/sqlite/claim.ts',
    'store/turn',
    ['late is forgotten', 't.cursor < l.done_cursor)', 't.cursor < 0)'],
    ['suspects in the live process', 'behindAt ?? now), 0)', 'behindAt ?? now), 1)'],
    ['a claim beyond what is fanned out', 'Math.min(now, behindAt ?? now)', 'now'],
    ['a paused handler works', 'if (row.paused || ', 'if ('],
    [
      'a strict handler works while behind',
      'const isCaughtUp = row.position >= turn.look.newest;',
      'const isCaughtUp = true;',
    ],
  ),
  ...planted(
    'store/handlers.ts',
    'store/turn',
    ['a new handler begins at the first event', '{ name, file, newest }', '{ name, file, newest: 0 }'],
    [
      'what came before the first handlers is left out',
      "coalesce((select cast(value as bigint) from state where name = 'first'), @newest)",
      '@newest',
    ],
  ),
  ...planted(
    'store/identity.ts',
    'store/ingest',
    ['the floor applied to webhooks', 'isReplayed && cursor !== null && floor', 'cursor !== null && floor'],
    ['a conflict taken for a duplicate', '!isDeepStrictEqual(', 'false && !isDeepStrictEqual('],
    ['an erased row contradicts', 'if (known.erased) return false;', ''],
    ['one bad reading refuses all', 'if (error instanceof StoreError) throw error;\n    }', 'throw error;\n    }'],
    ['a watermark that goes back', 'hasReached && isBehind(watermark, to)', 'hasReached'],
    ['a watermark over a gap', 'watermark !== null && !isBehind(watermark, from)', 'watermark !== null'],
  ),
  ...planted(
    'store/sqlite/ingest.ts',
    'store/ingest',
    [
      'a webhook’s cursor moves the watermark',
      'return verdicts;',
      "for (const it of readings) if ('event' in it && it.event.cursor) state.set('watermark', it.event.cursor);\n      return verdicts;",
    ],
    ['a known id is replaced', 'id = coalesce(id, ?)', 'id = coalesce(?, id)'],
  ),
  ...planted(
    'store/lanes.ts',
    'store/model',
    ['a suspect in a chain', 'isOpen && crashes === 0 &&', 'isOpen &&'],
    ['a chain over a task that is not due', 'isOpen = due <= upTo && (', 'isOpen = ('],
  ),
  ...planted(
    'store/lanes.ts',
    'store/turn',
    ['strict order not held back', "return order === 'window' ? receivedAt + windowMs : NEVER;", 'return receivedAt;'],
    ['no window', 'receivedAt + windowMs', 'receivedAt'],
  ),
  ...planted(
    'store/sqlite/lanes.ts',
    'store/turn',
    ['a position that moves twice', 'where id = @handler and position = @from', 'where id = @handler and @from >= 0'],
    ['a lane due before its head', 'state = 0 order by cursor limit 1)', 'state = 0 order by due_at limit 1)'],
    ['an own lane stays', 'if (lane < 0) drop.run(lane);', ''],
    ['strict released above the watermark', "order === 'strict' ? watermark : HIGHEST", 'HIGHEST'],
  ),
  ...planted('store/verbs.ts', 'store/model', [
    'deaths counted at a clean end',
    'giveBack(tx, boot))',
    'Promise.resolve(void [tx, boot]))',
  ]),
  ...planted(
    'store/verbs.ts',
    'store/boots',
    ['a completion without its claim', 'if (!(await holds(tx, hold))) return false;', ''],
    ['a note without its claim', 'if (!isHeld || !known) return false;', 'if (!known) return false;'],
    ['a failed statement is forgotten', 'if (seen.failure) throw seen.failure;', ''],
    ['a completion that hangs', 'complete: 1_000', 'complete: 100_000'],
  ),
  ...planted('store/sqlite/schema.sql', 'store/ingest', [
    'autoincrement left out',
    'seq integer primary key autoincrement',
    'seq integer primary key',
  ]),
  ...planted('run/pool.ts', 'run/runner', [
    'a suspect begins before the outcome of another is written',
    ' && !this.hasEnded()',
    '',
  ]),
  ...planted(
    'store/sqlite/settle.ts',
    'store/model',
    ['a suspect that steps aside is none', 'lanes.touch(own);', ''],
    ['the claim’s number not checked', 'boot = ? and claim = ?', 'boot = ? and ? > 0'],
    ['a task that steps aside passes nothing', 'touch(own);\n    return true;', 'touch(own);\n    return false;'],
  ),
  ...planted(
    'store/sqlite/settle.ts',
    'store/turn',
    ['a rerun holds its lane', ' || task.rerun === 1', ''],
    ['a task that steps aside is not marked late', 'set lane = ?, late = 1', 'set lane = ?, late = 0'],
    ['RetryAfter costs an attempt', 'attempts + ?', 'attempts + max(1, ?)'],
    ['the first failure is forgotten', 'coalesce(failed_at, ?)', 'coalesce(null, ?)'],
  ),
  ...planted('store/sqlite/turn.ts', 'store/boots', [
    'an orphan that goes on',
    'if (sql.stands.get(turn.boot) === undefined)',
    'if (turn.boot < 0)',
  ]),
  ...planted('store/boots.ts', 'postgres/instances', [
    'a boot that is judged while it writes',
    "tx.dialect === 'postgres' ? ' for key share' : ''",
    "''",
  ]),
  ...planted('store/postgres/ingest.ts', 'postgres/instances', [
    'ingest without its lock',
    "tx.lock('ingest')",
    'null',
  ]),
  ...planted('store/postgres/lanes.ts', 'postgres/instances', [
    'lanes freed without a lock',
    'order by id for update',
    'order by id',
  ]),
  ...planted('store/verbs.ts', 'postgres/instances', [
    'a completion that outlives its claim',
    'if (!isHeld) throw GONE;',
    '',
  ]),
  ...planted(
    'store/postgres/claim.ts',
    'postgres/instances',
    ['one lane claimed by two', 'for update skip locked', ''],
    [
      'lanes locked, and their tasks read, by one statement',
      `  const found = tasks > 0 ? await tx.all<{ id: number }>(LANES, { handler, suspect, upTo, tasks }) : [];
  const lanes = found.map(({ id }) => id);
  const heads = lanes.length > 0 ? await tx.all<object>(HEADS, { lanes, chain, upTo, tasks }) : [];`,
      `  const from = '(' + LANES.replace('select id', 'select id, 1 as n') + ') v join lanes l on l.id = v.id';
  const one = HEADS.replace(/unnest.*?v\\.id/s, from);
  const heads = tasks > 0 ? await tx.all<object>(one, { handler, suspect, chain, upTo, tasks }) : [];`,
    ],
  ),
  ...planted(
    'store/postgres/signs.ts',
    'postgres/instances',
    ['judged by one that was away', 'now - since < SIGN_MS.lost', 'now < since'],
    [
      'a sign of life by the clock of the instance',
      'db.all<{ id: number }>(SIGN, { boot })',
      "db.all<{ id: number }>(SIGN.replace('now_ms()', '@now'), { boot, now: clock.now() })",
    ],
  ),
  ...planted(
    'store/postgres/connection.ts',
    'postgres/server',
    [
      'a frozen instance stops all',
      'idle_in_transaction_session_timeout: 3_000',
      'idle_in_transaction_session_timeout: 0',
    ],
    ['a lock is waited for without a limit', 'lock_timeout: 4_000', 'lock_timeout: 0'],
  ),
];
