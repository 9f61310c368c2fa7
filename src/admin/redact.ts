// What may name a person though it is no body: a lane is called after a conversation, an error may quote what was written.
// Who may only look sees neither.
import type { DeadGroup, ShownTask, WaitingLane } from '../store/read.ts';
import type { Found } from './timeline.ts';

const SESSION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
/** What kind of error, and the line of the handler; what stands between are words. */
const KIND = /^\w{0,50}(Error|Exception|Timeout)(?=: )/;
const PLACE = / \([^()\s]+:[\d#]+\)$/;

export function shelteredTask(task: ShownTask): ShownTask {
  return { ...withoutWords(task), lane: task.lane && laneOf(task.lane) };
}

export function shelteredEvent(found: Found): Found {
  return { ...found, tasks: found.tasks.map(shelteredTask), attempts: found.attempts.map(withoutWords) };
}

export function shelteredGroup(group: DeadGroup): DeadGroup {
  return { ...withoutWords(group), pattern: kindOf(group.error ?? '') };
}

export function shelteredLane({ lane, head, ...rest }: WaitingLane): WaitingLane {
  return { ...rest, lane: laneOf(lane), head: withoutWords(head) };
}

function withoutWords<Shown extends { error: string | null }>(shown: Shown): Shown {
  return { ...shown, error: shown.error && kindOf(shown.error) };
}

function kindOf(error: string): string {
  return `${KIND.exec(error)?.[0] ?? ''} …${PLACE.exec(error)?.[0] ?? ''}`.trim();
}

/** The session, where it is of one. */
function laneOf(name: string): string {
  const session = SESSION.exec(name)?.[0] ?? '';
  return session === name ? name : `${session}/…`;
}
