// The lanes in memory: what the lane core (store/lanes/) asks of a store, and the tasks that it lets run.
import { startClaiming } from '../../../store/lanes/claiming.ts';
import type { Chain, Heads, LaneRow, Want } from '../../../store/lanes/lane.ts';
import { createLaneCore } from '../../../store/lanes/lanes.ts';
import { LOOKS, type StrictPlace } from '../../../store/lanes/strict-order.ts';
import { endOf } from '../../../store/settlement.ts';
import type { Waiting } from '../../../store/lanes/waiting.ts';
import type { Claim, Settlement, ShownState, StoredEvent, TaskState, Turn } from '../../../store/work.ts';
import type { createIngest } from './ingest.ts';

export interface TaskRow extends Waiting {
  state: Exclude<TaskState, 'running'>;
  claim: Claim | null;
  crashes: number;
  late: boolean;
  notes: Map<string, string>;
}

/** `tasks`: all that have entered the lane, by cursor. */
type Lane = LaneRow & { tasks: (TaskRow & StrictPlace)[] };

const highest = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const byPlace = (a: StrictPlace, b: StrictPlace): number => Number(a.cursor - b.cursor) || a.lane - b.lane;

// oxlint-disable-next-line max-lines-per-function -- the methods share the lanes, and each is short
export function createLanes({ events, state, watermark, note }: ReturnType<typeof createIngest>) {
  const core = createLaneCore();
  const tasks = new Map<number, TaskRow>();
  /** The id of a lane is its place in the list, from 1. */
  const lanes: Lane[] = [];
  const laneOf = (id: number | null): Lane | undefined => lanes[(id ?? 0) - 1];
  const rowOf = (id: number): TaskRow => tasks.get(id) as TaskRow;

  /** Tasks that have not ended and did not step aside, by cursor. */
  const waitingIn = (lane?: Lane) => lane?.tasks.filter((task) => task.state === 'ready' && !task.alone) ?? [];
  const workingIn = (lane?: Lane): number => waitingIn(lane).filter((task) => task.claim).length;

  /** Puts a new task into the lane with this name. */
  function enter(task: TaskRow, name: string, cursor: bigint): void {
    const { handler, rerun } = task;
    const known = laneOf(core.laneOf(handler, rerun, name) ?? null);
    const lane = known ?? { id: lanes.length + 1, handler, rerun, name, finished: -1n, unproven: -1n, tasks: [] };
    lanes[lane.id - 1] = lane;
    lane.tasks.push(Object.assign(task, { lane: lane.id, alone: false, cursor }));
    lane.tasks.sort(byPlace);
    core.entered(lane);
    core.add(task);
  }

  /** The core reads the lane of the task again, because something beside a turn has changed it. */
  function learn(task: TaskRow, now: number): void {
    const lane = laneOf(task.lane);
    if (lane) core.learn(lane, workingIn(lane), now);
  }

  function ended(settlement: Settlement, now: number): void {
    const lane = laneOf(settlement.claim.lane);
    if (!lane) return;
    lane.finished = highest(lane.finished, endOf(settlement) ?? -1n);
    core.ended(lane.id, endOf(settlement), settlement.claim.alone, now);
  }

  /** Follows the watermark, and returns how many strict tasks wait for it. */
  function advance(fannedOut: number, now: number): number {
    const searched = Number(state.get('searched') ?? 0);
    core.follow({ watermark: BigInt(watermark() ?? -1), searched, newest: events.length, fannedOut }, now);
    const place = core.strictOrder.wants();
    const strict = lanes.flatMap(waitingIn).filter((task) => task.strict);
    const after = strict.filter((task) => place && byPlace(task, place) > 0).toSorted(byPlace);
    if (place) core.strictFound(after.slice(0, LOOKS), now);
    for (const { lane, cursor } of core.strictOrder.released()) (lanes[lane - 1] as Lane).unproven = cursor;
    // The core also keeps this count, for stores that have too many tasks to count.
    return [...tasks.values()].filter((task) => stateOf(task) === 'held').length;
  }

  /** A strict task is held until the watermark or its lane has passed it. No other task is shown as held. */
  function stateOf(task: TaskRow): ShownState {
    const { finished = -1n, unproven = -1n } = laneOf(task.lane) ?? {};
    const passed = highest(highest(finished, unproven), core.strictOrder.watermark());
    const isHeld = task.strict && !task.alone && task.state === 'ready' && (task.cursor ?? -1n) > passed;
    return task.claim ? 'running' : isHeld ? 'held' : task.state;
  }

  function claimUpTo(turn: Turn): { claims: Claim[]; nextAt: number | null } {
    const { now, boot } = turn;
    const claims: Claim[] = [];
    const claiming = startClaiming(core, turn);
    while (claiming.goesOn()) {
      const wants = claiming.wants((handler, rerun, most) => singles(handler, rerun, now).slice(0, most));
      const taken = claiming.take(wants.map((want) => heads(want, now)));
      for (const id of taken.aside) rowOf(id).alone = true;
      for (const { task, chain } of taken.claims) claims.push(claim(rowOf(task.id), { now, boot, chain }));
    }
    return { claims, nextAt: claiming.end((handler, rerun) => singles(handler, rerun)[0]?.dueAt ?? null) };
  }

  /** Tasks that wait for no other and are due by this time, the oldest first. */
  function singles(handler: number, rerun: boolean, by = Infinity): TaskRow[] {
    const isFree = (task: TaskRow): boolean => task.state === 'ready' && task.alone && !task.claim && !task.isolated;
    const its = [...tasks.values()].filter((task) => task.handler === handler && task.rerun > 0 === rerun);
    return its.filter((task) => isFree(task) && task.dueAt <= by).toSorted((a, b) => a.dueAt - b.dueAt);
  }

  function heads({ lane, most }: Want, now: number): Heads {
    const waiting = waitingIn(laneOf(lane));
    const loose = waiting.filter(({ strict }) => !strict);
    const top = loose.findLast(({ releaseAt }) => releaseAt <= now)?.cursor ?? null;
    const earliest = Math.min(...loose.map(({ releaseAt }) => releaseAt));
    return { lane, tasks: waiting.slice(0, most), more: waiting.length >= most, top, earliest };
  }

  function claim(task: TaskRow, { now, boot, chain }: { now: number; boot: number; chain: Chain }): Claim {
    const { id, handler, lane, alone, rerun, deferred: deferredMs, error, cursor } = task;
    const event = { ...events[task.event - 1] } as StoredEvent;
    const unproven = task.strict && (cursor ?? -1n) > core.strictOrder.watermark();
    const attempt = { attempt: task.attempts + 1, boot, startedAt: now, deferredMs, error, chain };
    const place = { lane, alone, rerun, late: isLate(task), unproven };
    task.claim = { task: id, handler, event, ...place, ...attempt, notes: Object.fromEntries(task.notes) };
    note({ 'tasks.ready': -1, 'tasks.running': 1 });
    return task.claim;
  }

  /** A higher task of the lane has ended, or runs because this one has stepped aside. */
  function isLate({ lane: id, cursor, alone }: TaskRow): boolean {
    const lane = laneOf(id);
    if (!lane || cursor === null) return false;
    return cursor < lane.finished || (alone && lane.tasks.some((one) => one.claim && one.cursor > cursor));
  }

  /** The next isolated task of these handlers that is the next of its lane, if no task of the lane is running. */
  function isolated(now: number, handlers: number[]): TaskRow | undefined {
    const isNext = (task: TaskRow, lane = laneOf(task.lane)) => workingIn(lane) === 0 && waitingIn(lane)[0] === task;
    const due = [...tasks.values()].filter((task) => task.isolated && !task.claim && task.dueAt <= now);
    return due.find((task) => handlers.includes(task.handler) && (task.alone || isNext(task)));
  }

  function claimIsolated(now: number, boot: number, ids: number[]): Claim | undefined {
    const task = isolated(now, ids);
    if (!task) return undefined;
    const claimed = claim(task, { now, boot, chain: { recalled: false } });
    learn(task, now);
    return claimed;
  }

  return { tasks, enter, learn, ended, advance, claimUpTo, isolated, claimIsolated, stateOf, laneOf };
}
