// A turn of `run`: settle, fan out and claim, each a transaction. They work on what `look` has read before.
import { checkBoot, giveBack } from '../boots.ts';
import { Counts } from '../counts.ts';
import { dueAt } from '../lanes.ts';
import type { Turn, WorkStore } from '../work.ts';
import { claim } from './claim.ts';
import type { Connections, Tx } from './connection.ts';
import { addTasks } from './lanes.ts';
import { look } from './look.ts';
import { settle } from './settle.ts';
import { createSigns } from './signs.ts';

export function createTurns(db: Connections, instance: string, laneKey: string): Pick<WorkStore, 'look' | 'turn'> {
  const { clock } = db;
  const sign = createSigns(db);
  const write = <R>({ boot }: Turn, work: (tx: Tx, counts: Counts, now: number) => Promise<R>): Promise<R> =>
    db.write(async (tx) => {
      const counts = new Counts();
      const [, result] = await Promise.all([checkBoot(tx, boot), work(tx, counts, clock.now())]);
      await counts.write(tx);
      return result;
    });

  /** A handler that another instance fans out for is left to it. */
  async function fanOut(tx: Tx, turn: Turn, counts: Counts): Promise<void> {
    const lock = db.lock('fan-out', 'cast(@handler as int)', 'try_');
    const mine = turn.fanOut.map(async ({ handler, from }) => {
      // The position is read once the lock is held, and nobody forgets the handler now.
      const [held, known] = await Promise.all([
        tx.get<{ mine: 0 | 1 }>(lock, { handler }),
        tx.get<{ position: number }>('select position from handlers where id = @handler for key share', { handler }),
      ]);
      return held?.mine === 1 && known?.position === from;
    });
    const isMine = await Promise.all(mine);
    const taken = turn.fanOut.flatMap((one, n) => {
      const room = turn.rooms.find(({ handler }) => handler === one.handler);
      return room && isMine[n] ? [{ ...one, room }] : [];
    });
    const tasks = taken.flatMap(({ tasks: list, room }) => list.map((task) => ({ ...task, dueAt: dueAt(task, room) })));
    if (tasks.length > 0) await addTasks(tx, laneKey, tasks, counts);
    const move = 'update handlers set position = @upTo where id = @handler';
    for (const { handler, upTo } of taken) tx.last(move, { handler, upTo });
  }

  return {
    look: (wanted) => db.read((tx) => look(tx, wanted)),
    async turn(turn) {
      await sign(turn.boot);
      // They touch different tasks, and wait for each other's lanes at most.
      const [fenced] = await Promise.all([
        turn.ended.length > 0 ? write(turn, (tx, counts, now) => settle(tx, turn.ended, now, counts)) : 0,
        turn.fanOut.length > 0 && write(turn, (tx, counts) => fanOut(tx, turn, counts)),
      ]);
      const result = await write(turn, async (tx, _, now) => {
        // An earlier claim may have been committed without an answer.
        await giveBack(tx, turn.boot, turn.claim);
        return claim(tx, turn, now, instance);
      });
      return { ...result, fenced };
    },
  };
}
