// A lane in memory, and what the store says of it.
import type { Claim, Turn } from '../work.ts';
import type { StrictLane } from './strict-order.ts';
import type { Waiting } from './waiting.ts';

export type Chain = Claim['chain'];

export interface Lane extends StrictLane {
  key: string;
  handler: number;
  /** The id of the rerun that the lane belongs to. 0: the lane is for events as they arrive. */
  rerun: number;
  /** Tasks at or below this cursor are released, unless they are strict. */
  released: bigint;
  /** The highest cursor of a finished task. Tasks below it are late. */
  finished: bigint;
  /** The number of its claims that are not settled. */
  working: number;
  /** The claims of this process. */
  chain: Chain | null;
  /** The highest cursor that this process has claimed. */
  claimed: bigint;
  /** The next waiting tasks in cursor order. If `more` is true, others may follow in the store. */
  known: Waiting[];
  more: boolean;
  at: number | null;
  dropped: boolean;
}

/** A lane as the store has it. */
export interface LaneRow {
  id: number;
  handler: number;
  name: string;
  rerun: number;
  finished: bigint;
  unproven: bigint;
}

/** A lane of which the store must read the next tasks before it can run. */
export interface Want {
  lane: number;
  /** Read up to this many tasks. */
  most: number;
  /** Tasks up to this cursor are released. If a task is not, read `top` and `earliest` too. */
  released: bigint;
}

export interface Heads {
  lane: number;
  tasks: Waiting[];
  /** As many as asked for were found, so others may follow. */
  more: boolean;
  /** The highest cursor of a waiting task whose release time has come, of those that are not strict. Null: none. */
  top: bigint | null;
  /** The earliest release time of a waiting task, of those that are not strict. */
  earliest: number | null;
}

export type Room = Pick<Turn, 'room' | 'handlers' | 'limits' | 'reruns'>;

export interface Ask extends Room, Pick<Turn, 'now' | 'chains'> {
  /** Maximum number of lanes to look at. */
  looks: number;
  /** Due tasks that wait for no other, the oldest first. */
  singles: (handler: number, rerun: boolean, most: number) => Waiting[];
}

export interface Taken {
  /** In the order in which they must be claimed. */
  claims: { task: Waiting; chain: Chain }[];
  /** Ids of tasks that step aside from their lanes. */
  aside: number[];
  /** A chosen lane did not run, so another may have its place. */
  again: boolean;
  /** The number of lanes that were looked at. */
  looks: number;
}

export function newLane({ id, handler, rerun, name }: LaneRow): Lane {
  const none = { released: -1n, unproven: -1n, finished: -1n, claimed: -1n, awaited: null, chain: null };
  const idle = { working: 0, known: [], more: false, at: null, dropped: false };
  return { id, key: keyOf(rerun, name), handler, rerun, ...none, ...idle };
}

export function waits(lane: Lane): boolean {
  return lane.known.length > 0 || lane.more;
}

/** Lanes of events without a session: one per conversation, and one for all others. */
export function hasNoSession(name: string): boolean {
  return name === '' || name.startsWith('/');
}

/** Unique among the lanes of a handler's reruns, or among its other lanes. */
export function keyOf(rerun: number, name: string): string {
  return rerun > 0 ? `${rerun}/${name}` : name;
}
