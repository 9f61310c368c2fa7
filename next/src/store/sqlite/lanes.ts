// Lanes: which one a task is in, and when it is due. `touch` keeps one rule: a free lane is due when its head is.
import { hash } from 'node:crypto';
import type { NewTask } from '../work.ts';
import type { Db } from './database.ts';
import type { State } from './state.ts';

/** `due_at` of a strict task that waits for the watermark. */
export const NEVER = 9_000_000_000_000_000;
/** Of a lane's number and its due time: the head, its lowest waiting cursor. */
export const HEAD =
  '(select due_at, crashes > 0 from tasks where lane = lanes.id and state = 0 order by cursor limit 1)';
/** Handlers are numbered below this. */
const HANDLERS = 4_096;

export type Lanes = ReturnType<typeof createLanes>;

export function createLanes(db: Db, state: State) {
  const place = db.sql(`insert into lanes (id, handler, due_at, suspect) values (?, ?, ?, 0)
    on conflict (id) do update set due_at = excluded.due_at, suspect = 0 where boot is null and due_at is null`);
  const touch = db.sql(`update lanes set (due_at, suspect) = ${HEAD} where id = ? and boot is null`);
  const drop = db.sql('delete from lanes where id = ? and due_at is null and boot is null');
  let key: unknown;

  /** 53 bits of a keyed hash, because names hold phone numbers. Two lanes that share a number only wait for each other. */
  function named(handler: number, name: string): number {
    key ??= state.get('lane_key');
    const digest = hash('sha256', `${String(key)}/${handler}/${name}`, 'buffer');
    return digest.readUIntBE(0, 6) * 32 + (digest.readUInt8(6) >> 3);
  }
  const own = (handler: number, event: number): number => -(event * HANDLERS + handler);

  return {
    /** The lane of one task. */
    own,
    /** A task without a lane's name or without a cursor has a lane of its own. */
    of: ({ handler, event, cursor, lane }: NewTask): number =>
      lane === null || cursor === null ? own(handler, event) : named(handler, lane),
    /** A task that is due then comes into the lane, which is made if it is missing. False: touch it afterwards. */
    place: (lane: number, handler: number, dueAt: number): boolean => place.run(lane, handler, dueAt).changes > 0,
    /** Call it after every change to a lane's waiting tasks. The lane of one task is deleted with it. */
    touch(lane: number): void {
      touch.run(lane);
      if (lane < 0) drop.run(lane);
    },
  };
}
