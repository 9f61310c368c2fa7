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
    'await tx.touch([task.lane]);',
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
  ...planted('operations/store/sqlite-reruns.ts', 'operations/changing', [
    'a rerun without its lane',
    'if (!lanes.place(lane, handler, now)) touched.add(lane);',
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
      'user code in the write transaction',
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
    'store/sqlite/boots.ts',
    'store/boots',
    ['an orphan that goes on', 'if (standing.get(boot) === undefined)', 'if (boot < 0)'],
    ['a death weighs nothing', 'ofRun: 4', 'ofRun: 0'],
    [
      'lanes of dead boots stay claimed',
      'giveBack(boot);\n      }\n      return',
      'remove.run(boot);\n      }\n      return',
    ],
    ['a death of the kit weighs as one of run', 'ofKit: 1', 'ofKit: 4'],
    ['a fourth death', 'most: 12', 'most: 16'],
    ['one death judges every process', 'restart ? ofRole.all(role) : all.all()', 'all.all()'],
  ),
  ...planted('store/sqlite/boots.ts', 'store/model', [
    'a dead letter passes nothing',
    'passed.run({ event, handler, lane });',
    '',
  ]),
  ...planted(
    'store/sqlite/claim.ts',
    'store/model',
    ['text order of cursors', 'order by cursor limit 1 offset', 'order by cast(cursor as text) limit 1 offset'],
    ['a suspect in a chain', 'isOpen && crashes === 0 &&', 'isOpen &&'],
    ['a chain over a task that is not due', 'isOpen = dueAt <= upTo && (', 'isOpen = ('],
    ['a rerun is late', 't.rerun = 0 and (', '('],
  ),
  ...planted(
    'store/sqlite/claim.ts',
    'store/turn',
    ['late is forgotten', 't.cursor < l.done_cursor)', 't.cursor < 0)'],
    [
      'suspects in the live process',
      'this.#claim(boot, first, room, upTo, 0)',
      'this.#claim(boot, first, room, upTo, 1)',
    ],
  ),
  ...planted(
    'store/sqlite/handlers.ts',
    'store/turn',
    ['a new handler begins at the first event', 'add.get(name, file, newest)', 'add.get(name, file, 0)'],
    [
      'what came before the first handlers is left out',
      "coalesce((select value from state where name = 'first'), ?)",
      '?',
    ],
  ),
  ...planted(
    'store/sqlite/ingest.ts',
    'store/ingest',
    ['the floor applied to webhooks', 'isReplayed && cursor !== null && batch.floor', 'cursor !== null && batch.floor'],
    [
      'a webhook’s cursor moves the watermark',
      'if (proves) this.#prove(proves);',
      "if (proves) this.#prove(proves);\n      for (const one of readings) if ('event' in one && one.event.cursor) this.#state.set('watermark', one.event.cursor);",
    ],
    ['a conflict taken for a duplicate', '!this.#sameData(event, known)', 'false'],
    ['an erased row contradicts', 'if (known.erased) return false;', ''],
    [
      'one bad reading refuses all',
      'return this.#write(given, (reading, batch) => this.#alone(reading, batch));',
      'throw error;',
    ],
    ['a known id is replaced', 'id = coalesce(id, ?)', 'id = coalesce(?, id)'],
    ['a watermark that goes back', 'if (reached && isBehind(watermark, to))', 'if (reached)'],
    ['a watermark over a gap', 'watermark !== null && !isBehind(watermark, from)', 'watermark !== null'],
  ),
  ...planted(
    'store/sqlite/lanes.ts',
    'store/turn',
    ['a position that moves twice', 'where id = @handler and position = @from', 'where id = @handler and @from >= 0'],
    ['due at the least of the tasks', 'state = 0 order by cursor limit 1)', 'state = 0 order by due_at limit 1)'],
    ['an own lane stays', 'if (lane < 0) drop.run(lane);', ''],
    ['strict released above the watermark', "order === 'strict' ? watermark : HIGHEST", 'HIGHEST'],
  ),
  ...planted('store/sqlite/open.ts', 'store/model', [
    'deaths counted at a clean end',
    'boots.giveBack(boot))',
    'void boot)',
  ]),
  ...planted(
    'store/sqlite/owned.ts',
    'store/boots',
    ['a completion without its claim', 'if (!holds(hold)) return false;', ''],
    ['a note without its claim', 'holds(hold) ? notes', 'hold ? notes'],
    ['a failed statement is forgotten', 'if (failed) throw failed;', ''],
    ['a completion that hangs', 'LIMIT_MS = 1_000', 'LIMIT_MS = 100_000'],
  ),
  ...planted('store/sqlite/schema.sql', 'store/ingest', [
    'autoincrement left out',
    'seq integer primary key autoincrement',
    'seq integer primary key',
  ]),
  ...planted(
    'store/sqlite/settle.ts',
    'store/model',
    ['a suspect that steps aside is none', 'this.#lanes.touch(own);', ''],
    ['the claim’s number not checked', 'boot = ? and claim = ?', 'boot = ? and ? > 0'],
    ['a task that steps aside passes nothing', 'touch(own);\n    return true;', 'touch(own);\n    return false;'],
  ),
  ...planted(
    'store/sqlite/settle.ts',
    'store/turn',
    ['a rerun holds its lane', ' || task.rerun === 1', ''],
    ['steps aside without a word', 'set lane = ?, late = 1', 'set lane = ?, late = 0'],
    ['RetryAfter costs an attempt', 'attempts + ?', 'attempts + max(1, ?)'],
    ['the first failure is forgotten', 'coalesce(failed_at, ?)', 'coalesce(null, ?)'],
  ),
  ...planted(
    'store/sqlite/turn.ts',
    'store/turn',
    ['a claim beyond what is fanned out', 'Math.min(now, behindAt ?? now)', 'now'],
    ['strict order not held back', "return order === 'window' ? receivedAt + windowMs : NEVER;", 'return receivedAt;'],
    ['no window', 'receivedAt + windowMs', 'receivedAt'],
    ['a paused handler works', 'if (row.paused || ', 'if ('],
    [
      'a strict handler works while behind',
      'const isCaughtUp = row.position >= turn.look.newest;',
      'const isCaughtUp = true;',
    ],
  ),
];
