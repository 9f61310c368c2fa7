// The lanes in memory: what the lane core (store/lanes/) asks of a store, and the tasks that it lets run.
import type { Chain, Heads, Want } from '../../../store/lanes/lane.ts';
import { startClaiming } from '../../../store/lanes/claiming.ts';
import { createLaneCore } from '../../../store/lanes/lanes.ts';
import { LOOKS } from '../../../store/lanes/strict-order.ts';
import type { Claim, NewTask, Turn } from '../../../store/work.ts';
import type { Data, LaneData, TaskRow } from './data.ts';

// oxlint-disable-next-line max-lines-per-function -- one method of the role each, and each is short
export function createLanes(data: Data) {
  const { lanes, tasks, events, state } = data;
  const core = createLaneCore();
  const watermark = (): bigint => BigInt(data.cursor('watermark') ?? -1);
  const laneOf = (task: TaskRow): LaneData | undefined => lanes.get(task.lane ?? 0);

  /** The core reads the lane again, because something beside a turn has changed it. */
  function learn(lane: LaneData | undefined, now: number): void {
    if (!lane) return;
    core.learn(lane, lane.waiting.filter((task) => task.claim).length, now);
    core.strictChanged();
  }

  function heads({ lane, most, released }: Want, now: number): Heads {
    const waiting = lanes.get(lane)?.waiting ?? [];
    const found = waiting.slice(0, most).map((task) => ({ ...task }));
    const more = found.length >= most;
    if (!found.some(({ cursor, strict }) => !strict && (cursor ?? 0n) > released))
      return { lane, tasks: found, more, top: null, earliest: null };
    const loose = waiting.filter(({ strict }) => !strict);
    const top = loose.findLast(({ releaseAt }) => releaseAt <= now)?.cursor ?? null;
    return { lane, tasks: found, more, top, earliest: Math.min(...loose.map(({ releaseAt }) => releaseAt)) };
  }

  /** Strict tasks that wait in their lanes, by cursor, then lane. */
  function waitingStrict(): { cursor: bigint; lane: number; event: number }[] {
    const waiting = [...tasks.values()].filter((task) => task.strict && task.state === 'ready' && !task.alone);
    const rows = waiting.map(({ cursor, lane, event }) => ({ cursor: cursor ?? 0n, lane: lane ?? 0, event }));
    return rows.toSorted((a, b) => (a.cursor < b.cursor ? -1 : a.cursor > b.cursor ? 1 : a.lane - b.lane));
  }

  function countStrict(): void {
    for (const { lane, cursor } of core.releasedUnproven()) raise(lanes.get(lane), 'unproven', cursor);
    const range = core.strictCountIn();
    if (!range) return;
    const isWaiting = ({ cursor, lane }: { cursor: bigint; lane: number }): boolean => {
      const { finished = -1n, unproven = -1n } = lanes.get(lane) ?? {};
      return cursor > range.above && cursor <= range.upTo && cursor > finished && cursor > unproven;
    };
    core.strictCounted(waitingStrict().filter(isWaiting).length);
  }

  function isLate(task: TaskRow): boolean {
    const { cursor, handler, alone, rerun, strict: isStrict } = task;
    const lane = laneOf(task);
    if (!lane || cursor === null) return false;
    // Replay and stream may bring an event without its session, so it may be in the wrong lane.
    const isUnplaced = lane.name === '' || lane.name.startsWith('/');
    const anywhere =
      !isStrict && rerun === 0 && isUnplaced && /replay|stream/.test(events[task.event - 1]?.origin ?? '');
    const others = anywhere ? [...lanes.values()].filter((one) => one.handler === handler && one.rerun === 0) : [lane];
    const running = [...tasks.values()].filter((one) => alone && one.lane === lane.id && one.claim !== null);
    return others.some(({ finished }) => cursor < finished) || running.some((one) => cursor < (one.cursor ?? 0n));
  }

  function claim(task: TaskRow, { now, boot, chain }: { now: number; boot: number; chain: Chain }): Claim {
    const { id, handler, lane, alone, rerun, deferred: deferredMs, error, cursor } = task;
    const event = { ...events[task.event - 1] } as Claim['event'];
    const unproven = task.strict && (cursor ?? -1n) > watermark();
    const attempt = { attempt: task.attempts + 1, boot, startedAt: now, deferredMs, error, chain };
    const place = { lane, alone, rerun, late: isLate(task), unproven };
    const claimed = { task: id, handler, event, ...place, ...attempt, notes: Object.fromEntries(task.notes) };
    task.claim = claimed;
    data.count({ 'tasks.ready': -1, 'tasks.running': 1 });
    return claimed;
  }

  function singles(handler: number, rerun: boolean): TaskRow[] {
    const isFree = (task: TaskRow): boolean => task.state === 'ready' && task.alone && !task.claim && !task.isolated;
    const found = [...tasks.values()].filter(
      (task) => task.handler === handler && task.rerun > 0 === rerun && isFree(task),
    );
    return found.toSorted((a, b) => a.dueAt - b.dueAt);
  }

  function leave(task: TaskRow): void {
    const waiting = laneOf(task)?.waiting ?? [];
    if (waiting.includes(task)) waiting.splice(waiting.indexOf(task), 1);
  }

  return {
    core,
    learn,
    claim,
    laneOf,
    /** Puts a new task into its lane. */
    enter(task: TaskRow, { handler, rerun = 0 }: NewTask, name: string): void {
      let lane = lanes.get(core.laneOf(handler, rerun, name) ?? 0);
      lane ??= [...lanes.values()].find((one) => one.handler === handler && one.rerun === rerun && one.name === name);
      lane ??= { id: lanes.size + 1, handler, name, rerun, finished: -1n, unproven: -1n, waiting: [] };
      lanes.set(lane.id, lane);
      core.entered(lane);
      task.lane = lane.id;
      task.alone = false;
      const at = lane.waiting.findLastIndex((other) => (other.cursor ?? 0n) < (task.cursor ?? 0n)) + 1;
      lane.waiting.splice(at, 0, task);
      core.add({ ...task });
    },
    leave,
    finish: (task: TaskRow): void => raise(laneOf(task), 'finished', task.cursor ?? -1n),
    /** Follows the watermark, and returns how many strict tasks wait for it. */
    advance(now: number): number {
      const facts = { searched: Number(state.get('searched') ?? 0), fannedOut: Number(state.get('fanned_out') ?? 0) };
      core.follow({ watermark: watermark(), newest: events.length, ...facts }, now);
      countStrict();
      const place = core.strictWants();
      const isAfter = (one: { cursor: bigint; lane: number }): boolean =>
        !!place && (one.cursor > place.cursor || (one.cursor === place.cursor && one.lane > place.lane));
      if (place) core.strictFound(waitingStrict().filter(isAfter).slice(0, LOOKS), now);
      countStrict();
      return core.unproven();
    },
    claimUpTo(turn: Turn): { claims: Claim[]; nextAt: number | null } {
      const { now, boot } = turn;
      const claims: Claim[] = [];
      const claiming = startClaiming(core, turn);
      while (claiming.goesOn()) {
        const wants = claiming.wants((handler, rerun, most) =>
          singles(handler, rerun)
            .filter(({ dueAt }) => dueAt <= now)
            .slice(0, most),
        );
        const taken = claiming.take(wants.map((want) => heads(want, now)));
        for (const id of taken.aside) {
          const task = tasks.get(id) as TaskRow;
          leave(task);
          task.alone = true;
        }
        for (const { task, chain } of taken.claims)
          claims.push(claim(tasks.get(task.id) as TaskRow, { now, boot, chain }));
      }
      return { claims, nextAt: claiming.end((handler, rerun) => singles(handler, rerun)[0]?.dueAt ?? null) };
    },
  };

  function raise(lane: LaneData | undefined, what: 'finished' | 'unproven', cursor: bigint): void {
    if (lane && cursor > lane[what]) lane[what] = cursor;
  }
}
