// The whole kit on a machine whose clock is wrong by days: nothing is pruned by it, and the refused deliveries are shown.
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { kitCommand } from '../system/kit-command.ts';
import { deliver, makeEvent, RECORD, until } from '../system/kit.ts';
import { newKit } from '../system/new-kit.ts';

/** The library that the command `faketime` loads into processes. */
const { status: found, stdout: library } = spawnSync('faketime', ['-m', '-f', '+0d', 'printenv', 'LD_PRELOAD']);
const AHEAD = { FAKETIME: '+40d', LD_PRELOAD: String(library).trim() };

test.skipIf(found !== 0)(
  'a start 40 days ahead prunes nothing, nor does a person, and status counts what it refuses',
  async () => {
    const right = await newKit({ record: RECORD });
    const env = { DATABASE_URL: `sqlite:${right.folder}/events.db` };
    const whole = (): number => right.query(`select 1 from events where body is not null`).length;
    const doneTasks = (): number => right.query(`select 1 from tasks where state = 'done'`).length;
    await right.start();
    for (let n = 1; n <= 20; n++) expect(await deliver(right, makeEvent(n))).toBe(204);
    await until(() => doneTasks() === 20);
    await right.stop();

    const wrong = await newKit({ record: RECORD }, { ...env, ...AHEAD });
    await wrong.start();
    await until(() => wrong.output().includes('the clock is more than a day ahead'));
    for (let n = 21; n <= 23; n++) expect(await deliver(wrong, makeEvent(n))).toBe(401);
    await until(() => right.query(`select 1 from alarms where name = 'failure_run'`).length === 1);
    const { out } = await kitCommand(wrong, env, ['status']);
    expect(out).toMatch(/failure_run.*3 × far_timestamp.*the clock of this machine may be wrong by more than a day/);
    await wrong.stop();

    const pruned = await kitCommand(right, { ...env, ...AHEAD }, ['prune']);
    expect(pruned.out).toMatch(
      /the clock is 40 days ahead of .*, the time that good deliveries and running time confirm/,
    );
    expect(pruned.out).toContain('0 events removed, 20 left');
    expect(whole()).toBe(20);
  },
);
