// A model of order: when a task may be claimed. It is written from "Order" and "Attempts" of the design alone, over a
// plain list. The model checks each claim of the store, and each task that the store leaves waiting.
import type { Claim } from '../../../src/store/work.ts';
import { hold } from './check.ts';

export const WINDOW_MS = 250;
export const HOLD_MS = 120_000;

export type Order = 'arrival' | 'window' | 'strict';

export interface Task {
  /** The event's key and the handler's name. */
  name: string;
  handler: number;
  order: Order;
  /** Null: the task has no lane. */
  lane: string | null;
  cursor: bigint | null;
  receivedAt: number;
  state: 'unassigned' | 'waiting' | 'running' | 'done';
  /** The process that runs the task, and whether the task runs outside its lane. */
  boot: number;
  alone: boolean;
  dueAt: number;
  /** A failing task holds its lane until this time. */
  holdUntil: number | null;
  /** The task's process died during an attempt, so the next attempt runs in a process of its own. */
  isolated: boolean;
}

export function createOrder() {
  const tasks: Task[] = [];
  let watermark = -1n;

  const mates = (task: Task): Task[] => (task.lane === null ? [] : tasks.filter(({ lane }) => lane === task.lane));
  const below = (a: Task, b: Task): boolean => a.cursor !== null && b.cursor !== null && a.cursor < b.cursor;
  const hasSteppedAside = ({ order, holdUntil }: Task, now: number): boolean =>
    order !== 'strict' && holdUntil !== null && holdUntil <= now;

  /** Whether the task is released: by its own times and cursor, or by a later task of its lane. */
  function isReleased(task: Task, now: number): boolean {
    return isFree(task) || [task, ...mates(task)].some((other) => releases(other, task, now));
  }

  const isFree = ({ order, cursor }: Task): boolean => order === 'arrival' || cursor === null;

  function releases(other: Task, task: Task, now: number): boolean {
    if (other.state === 'unassigned' || below(other, task)) return false;
    if (other.state === 'done' || (other.cursor ?? -1n) <= watermark) return true;
    return task.order === 'window' && other.receivedAt + WINDOW_MS <= now;
  }

  function claimed(task: Task, claim: Claim, now: number): void {
    const { name } = task;
    hold(task.state === 'waiting', () => `${name} was claimed while it was ${task.state}`);
    hold(task.dueAt <= now, () => `${name} was claimed before it was due`);
    const others = mates(task).filter((other) => other !== task);
    if (claim.alone) hold(task.lane === null || hasSteppedAside(task, now), () => `${name} left its lane too early`);
    else {
      const working = others.find((other) => other.state === 'running' && !other.alone);
      hold(!working, () => `${name} was claimed while ${working?.name} was at work in its lane`);
      const first = others.find((o) => o.state === 'waiting' && below(o, task) && !hasSteppedAside(o, now));
      hold(!first, () => `${name} was claimed before ${first?.name}, which waited in its lane`);
    }
    hold(isReleased(task, now), () => `${name} was claimed before its release`);
    const late = others.some(
      (other) => below(task, other) && (other.state === 'done' || (claim.alone && other.state === 'running')),
    );
    hold(claim.late === late, () => `${name} was claimed with late ${claim.late}`);
    const unproven = task.order === 'strict' && task.cursor !== null && task.cursor > watermark;
    hold(claim.unproven || !unproven, () => `${name} was claimed as proven`);
    Object.assign(task, { state: 'running', boot: claim.boot, alone: claim.alone });
  }

  /**
   * Whether the store must claim the task if there is room. A task that has stepped aside may release other tasks of
   * its lane, but the store need not use that release.
   */
  function isDue(task: Task, now: number): boolean {
    if (task.state !== 'waiting' || task.isolated || task.dueAt > now) return false;
    const lane = mates(task).filter((other) => other === task || !hasSteppedAside(other, now));
    if (!isFree(task) && !lane.some((other) => releases(other, task, now))) return false;
    return mates(task).every(
      (other) => other === task || other.state === 'done' || (other.state === 'waiting' && below(task, other)),
    );
  }

  function failed(task: Task, now: number, dueAt: number): void {
    Object.assign(task, { state: 'waiting', dueAt, holdUntil: task.holdUntil ?? now + HOLD_MS, isolated: false });
  }

  return {
    tasks,
    claimed,
    failed,
    isDue,
    done: (task: Task): void => void Object.assign(task, { state: 'done', isolated: false }),
    /** The tasks that the dead process was running wait again. If there was only one, its attempt is used up. */
    died(boot: number, now: number, attemptOf: (task: Task) => number): void {
      const its = tasks.filter((task) => task.state === 'running' && task.boot === boot);
      for (const task of its) {
        if (its.length === 1) failed(task, now, now + 1_000 * 2 ** (attemptOf(task) - 1));
        Object.assign(task, { state: 'waiting', isolated: true, ...(its.length > 1 && { dueAt: now }) });
      }
    },
    proved: (cursor: bigint): void => void (watermark = cursor > watermark ? cursor : watermark),
  };
}
