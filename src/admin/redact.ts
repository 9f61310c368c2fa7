// Hides lane names and error messages from readers: people with OPS_READ_TOKEN. Both may name a person, because a lane
// is often named after a conversation, and an error may quote a message.
import type { ReadStore, ShownTask, WaitingLane } from '../store/read.ts';

const SESSION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
/** A reader sees the class of an error and its line in the handler, but not the message between them. */
const KIND = /^\w{0,50}(Error|Exception|Timeout)(?=: )/;
const PLACE = / \([^()\s]+:[\d#]+\)$/;

/** The reads that return errors or lanes. */
export type PersonalReads = Pick<ReadStore, 'event' | 'tasks' | 'groups' | 'waitingLanes' | 'handler'>;

/** Returns the same reads, but their answers hide error messages and lane names. */
export function redacted(store: PersonalReads): PersonalReads {
  return {
    async event(name, now) {
      const found = await store.event(name, now);
      return found && { ...found, tasks: found.tasks.map(redactTask), attempts: found.attempts.map(withoutWords) };
    },
    async tasks(filter, now) {
      const { tasks, next } = await store.tasks(filter, now);
      return { tasks: tasks.map(redactTask), next };
    },
    async groups(filter) {
      const { dead, groups } = await store.groups(filter);
      return { dead, groups: groups.map((group) => ({ ...withoutWords(group), pattern: kindOf(group.error ?? '') })) };
    },
    waitingLanes: async (limit, handler) => (await store.waitingLanes(limit, handler)).map(redactLane),
    async handler(name, now) {
      const found = await store.handler(name, now);
      if (!found) return undefined;
      const failing = found.failing.map((one) => ({ ...one, pattern: kindOf(one.error), error: kindOf(one.error) }));
      return { ...found, failing, lanes: found.lanes.map(redactLane) };
    },
  };
}

function redactLane(one: WaitingLane): WaitingLane {
  return { ...one, lane: laneOf(one.lane), head: withoutWords(one.head) };
}

function redactTask(task: ShownTask): ShownTask {
  return { ...withoutWords(task), lane: task.lane && laneOf(task.lane) };
}

function withoutWords<Shown extends { error: string | null }>(shown: Shown): Shown {
  return { ...shown, error: shown.error && kindOf(shown.error) };
}

function kindOf(error: string): string {
  return `${KIND.exec(error)?.[0] ?? ''} …${PLACE.exec(error)?.[0] ?? ''}`.trim();
}

/** Keeps the session at the beginning of the lane's name, and hides the rest. */
function laneOf(name: string): string {
  const session = SESSION.exec(name)?.[0] ?? '';
  return session === name ? name : `${session}/…`;
}
