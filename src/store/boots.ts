// Who runs handlers: one boot per role of an instance. An ended boot frees its lanes. A death makes suspects of its
// running tasks.
import type { Clock } from '../base/clock.ts';
import { Counts } from './counts.ts';
import type { Change } from './sql.ts';
import { StoreError } from './store.ts';
import type { Role } from './work.ts';

/** What a death adds to `crashes` of the tasks that were running. At `most` a task is dead. */
export const WEIGHT = { ofRun: 4, ofKit: 1, most: 12 };

const HELD = 'select id from lanes where boot = @boot and claim >= @from order by id';
const FREE = 'update lanes set boot = null, claim = null, claimed_to = null where boot = @boot and claim >= @from';
const BLAME = `update tasks set crashes = crashes + @weight
  where lane = @lane and state = 0 and due_at <= @now and cursor <= (select claimed_to from lanes where id = @lane)
  returning event, handler, crashes, cast(cursor as text) as cursor`;
const KILL = `update tasks set state = 3, ended_at = @now, error = 'its process died each time that it ran'
  where event = @event and handler = @handler`;
/** Marks how far the lane has come: tasks with a lower cursor that come into it later are late. */
export const PASS = `update lanes set done_cursor = cast(@cursor as bigint)
  where id = @lane and done_cursor < cast(@cursor as bigint)`;

type Judged = { suspects: number; dead: number };

/** Throws `orphan` if the boot was judged or its role taken. Nobody judges it until the transaction ends. */
export async function checkBoot(tx: Change, boot: number): Promise<void> {
  const lock = tx.dialect === 'postgres' ? ' for key share' : '';
  const row = await tx.get(`select 1 as one from boots where id = @boot${lock}`, { boot });
  if (!row) throw new StoreError('orphan', 'another run has taken over');
}

async function heldBy(tx: Change, boot: number, from: number): Promise<number[]> {
  const lanes = (await tx.all<{ id: number }>(HELD, { boot, from })).map(({ id }) => id);
  if (lanes.length > 0) await tx.lock(lanes);
  return lanes;
}

/** Frees the boot's lanes whose claims have the number `from` or a higher one. */
export async function giveBack(tx: Change, boot: number, from = 0): Promise<void> {
  // On PostgreSQL, the commit of an earlier claim may still be under way.
  const [, lanes] = await Promise.all([tx.lock(`claims of ${boot}`), heldBy(tx, boot, from)]);
  if (lanes.length === 0) return;
  await tx.run(FREE, { boot, from });
  await tx.touch(lanes);
}

/** Frees the lanes of dead boots. The tasks that were running there become suspects, or dead. */
export async function judge(tx: Change, boots: number[], weight: number, now: number): Promise<Judged> {
  const judged = { suspects: 0, dead: 0 };
  const counts = new Counts();
  for (const boot of boots) {
    for (const lane of await heldBy(tx, boot, 0))
      for (const task of await tx.all<{ handler: number; crashes: number }>(BLAME, { lane, weight, now })) {
        judged.suspects++;
        if (task.crashes < WEIGHT.most) continue;
        judged.dead++;
        await tx.run(KILL, { ...task, now });
        await tx.run(PASS, { ...task, lane });
        counts.move(task.handler, 0, 3);
      }
    await giveBack(tx, boot);
  }
  await counts.write(tx);
  return judged;
}

/** Replaces the boot that had the role, and judges it. If the whole kit died, its other roles are judged, too. */
export async function takeRole(
  tx: Change,
  { instance, clock }: { instance: string; clock: Clock },
  role: Role,
  restart: boolean,
): Promise<Judged & { boot: number }> {
  const about = { instance, role, all: Number(!restart) };
  const gone = 'delete from boots where instance = @instance and (role = @role or @all = 1) returning id';
  const boots = (await tx.all<{ id: number }>(gone, about)).map(({ id }) => id);
  const judged = await judge(tx, boots, restart ? WEIGHT.ofRun : WEIGHT.ofKit, clock.now());
  const made = 'insert into boots (instance, role) values (@instance, @role) returning id';
  return { boot: (await tx.get<{ id: number }>(made, about))?.id ?? 0, ...judged };
}
